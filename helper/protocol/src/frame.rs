//! Length-prefixed, size-bounded, versioned messages.
//!
//! | bytes | meaning |
//! |---|---|
//! | 4 | magic, `AKJ` and a zero byte: neither white space nor `{`, so a frame is never taken for JSON |
//! | 2 | [`VERSION`], little endian |
//! | 4 | length of the payload, little endian, at most [`MAX_PAYLOAD`] |
//! | n | the payload: bincode 2, standard configuration (little endian, variable-length integers), nothing after it |

use crate::VERSION;
use serde::{Serialize, de::DeserializeOwned};
use std::io::{self, Read};

/// The first bytes of every frame.
pub const MAGIC: [u8; 4] = *b"AKJ\0";
/// The length of what precedes the payload.
pub const HEADER: usize = 10;
/// The largest payload, in bytes. A policy with 20,000 path rules of 200 bytes fits four times.
pub const MAX_PAYLOAD: usize = 16 << 20;

/// Why a frame could not be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// The input ended before the frame did.
    #[error("truncated: the input ends after {got} of {want} bytes of the frame")]
    Truncated {
        /// Bytes that came.
        got: usize,
        /// Bytes that were announced.
        want: usize,
    },
    /// The first bytes are not those of a frame.
    #[error("not a frame: it starts with \"{}\" instead of \"AKJ\\0\"", .0.escape_ascii())]
    Magic([u8; 4]),
    /// The frame is of another version.
    #[error("version {0} is not supported (this side speaks version {VERSION})")]
    Version(u16),
    /// The announced payload is too large.
    #[error("oversized: {0} bytes announced, {MAX_PAYLOAD} allowed")]
    Oversized(usize),
    /// The payload is not a message of the expected type.
    #[error("malformed: {0}")]
    Malformed(String),
    /// Reading failed.
    #[error("cannot read: {0}")]
    Io(#[from] io::Error),
}

fn config() -> impl bincode::config::Config {
    bincode::config::standard().with_limit::<MAX_PAYLOAD>()
}

/// Encodes one message with its header.
pub fn encode<T: Serialize>(message: &T) -> Result<Vec<u8>, FrameError> {
    let mut frame = Vec::with_capacity(256);
    frame.extend_from_slice(&MAGIC);
    frame.extend_from_slice(&VERSION.to_le_bytes());
    frame.extend_from_slice(&[0; 4]);
    let written = bincode::serde::encode_into_std_write(message, &mut frame, config())
        .map_err(|error| FrameError::Malformed(error.to_string()))?;
    let length = u32::try_from(written)
        .ok()
        .filter(|_| written <= MAX_PAYLOAD)
        .ok_or(FrameError::Oversized(written))?;
    frame.iter_mut().skip(6).zip(length.to_le_bytes()).for_each(|(byte, known)| *byte = known);
    Ok(frame)
}

/// Checks a header and returns the length of the payload that follows it.
pub fn payload_length(header: &[u8; HEADER]) -> Result<usize, FrameError> {
    let [m0, m1, m2, m3, v0, v1, l0, l1, l2, l3] = *header;
    let magic = [m0, m1, m2, m3];
    if magic != MAGIC {
        return Err(FrameError::Magic(magic));
    }
    let version = u16::from_le_bytes([v0, v1]);
    if version != VERSION {
        return Err(FrameError::Version(version));
    }
    let length = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
    if length > MAX_PAYLOAD { Err(FrameError::Oversized(length)) } else { Ok(length) }
}

/// Decodes a payload; bytes left over are an error.
pub fn decode_payload<T: DeserializeOwned>(payload: &[u8]) -> Result<T, FrameError> {
    let (message, used) = bincode::serde::decode_from_slice(payload, config())
        .map_err(|error| FrameError::Malformed(error.to_string()))?;
    match payload.len().abs_diff(used) {
        0 => Ok(message),
        left => Err(FrameError::Malformed(format!("{left} bytes left over after the message"))),
    }
}

/// Reads one frame. An input that ends before the first byte is `None`.
pub fn read<T: DeserializeOwned>(mut input: impl Read) -> Result<Option<T>, FrameError> {
    let mut header = [0; HEADER];
    match read_up_to(&mut input, &mut header)? {
        0 => return Ok(None),
        HEADER => {}
        got => return Err(FrameError::Truncated { got, want: HEADER }),
    }
    let length = payload_length(&header)?;
    // Grows with what really arrives: an announced length alone allocates nothing.
    let mut payload = Vec::new();
    let got = input.take(length as u64).read_to_end(&mut payload)?;
    if got < length {
        let [got, want] = [got, length].map(|length| length.saturating_add(HEADER));
        return Err(FrameError::Truncated { got, want });
    }
    decode_payload(&payload).map(Some)
}

fn read_up_to(input: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut got = 0;
    while let Some(rest) = buffer.get_mut(got..).filter(|rest| !rest.is_empty()) {
        match input.read(rest) {
            Ok(0) => break,
            Ok(n) => got = got.saturating_add(n),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(got)
}
