//! Receives the body of an answer.

use super::failure::MAX_BODY;
use super::http::Exchange;
use super::trouble::Trouble;
use super::wire::Fault;
use crate::context::Context;

/// How receiving a body ended.
pub(super) enum Received {
    /// With the body, or the part of it that is needed.
    All,
    Broken(Trouble),
    TooLarge,
    Faulty(Fault),
}

/// Receives a body until `take`, which gets its pieces, has all it needs.
pub(super) fn receive(
    context: &Context,
    exchange: &mut Exchange,
    mut take: impl FnMut(&[u8]) -> Result<bool, Fault>,
) -> Received {
    let mut size = 0;
    loop {
        let piece = match exchange.piece(context) {
            Ok(Some(piece)) => piece,
            Ok(None) => return Received::All,
            Err(trouble) => return Received::Broken(trouble),
        };
        size += piece.len();
        if size > MAX_BODY {
            return Received::TooLarge;
        }
        match take(&piece) {
            Ok(true) => return Received::All,
            Ok(false) => {}
            Err(fault) => return Received::Faulty(fault),
        }
    }
}
