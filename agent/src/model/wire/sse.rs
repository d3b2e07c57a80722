//! Server-sent events: the format in which replies are streamed.
//!
//! <https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream>, with one leniency: the last
//! event counts also where the empty line after it is missing, as servers leave it out.

use std::mem::take;

/// One event.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Event {
    /// Its type, empty if it has none.
    pub(super) kind: String,
    /// Its data; several lines are joined.
    pub(super) data: String,
}

/// Takes bytes, gives events.
#[derive(Debug, Default)]
pub(super) struct Events {
    /// A line that has not ended yet. It is decoded as a whole, so no character can be torn.
    line: Vec<u8>,
    /// Whether the last byte ended a line and a line feed would belong to it.
    after_return: bool,
    has_begun: bool,
    kind: String,
    data: Option<String>,
}

impl Events {
    /// The events that these bytes complete.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Vec<Event> {
        let mut events = Vec::new();
        let mut rest = bytes;
        if self.after_return && !rest.is_empty() {
            rest = rest.strip_prefix(b"\n").unwrap_or(rest);
            self.after_return = false;
        }
        while let Some(end) = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            self.line.extend_from_slice(&rest[..end]);
            events.extend(self.end_line());
            let ended_by = rest[end];
            rest = &rest[end + 1..];
            if ended_by == b'\r' {
                self.after_return = rest.is_empty();
                rest = rest.strip_prefix(b"\n").unwrap_or(rest);
            }
        }
        self.line.extend_from_slice(rest);
        events
    }

    /// The event under way at the end of the stream.
    pub(super) fn finish(&mut self) -> Option<Event> {
        self.end_line().or_else(|| self.dispatch())
    }

    fn end_line(&mut self) -> Option<Event> {
        let bytes = take(&mut self.line);
        let text = String::from_utf8_lossy(&bytes);
        let line = match self.has_begun {
            false => text.strip_prefix('\u{feff}').unwrap_or(&text),
            true => &text,
        };
        self.has_begun = true;
        if line.is_empty() {
            return self.dispatch();
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => match &mut self.data {
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
                None => self.data = Some(value.to_owned()),
            },
            "event" => value.clone_into(&mut self.kind),
            // A comment has an empty field name; what else there is means nothing here.
            _ => {}
        }
        None
    }

    fn dispatch(&mut self) -> Option<Event> {
        let kind = take(&mut self.kind);
        self.data.take().map(|data| Event { kind, data })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn events(pieces: &[&[u8]]) -> Vec<(String, String)> {
        let mut events = Events::default();
        let mut read: Vec<Event> = pieces.iter().flat_map(|piece| events.push(piece)).collect();
        read.extend(events.finish());
        read.into_iter().map(|event| (event.kind, event.data)).collect()
    }

    fn data(text: &str) -> Vec<String> {
        events(&[text.as_bytes()]).into_iter().map(|(_, data)| data).collect()
    }

    #[test]
    fn events_are_read_as_the_format_says() {
        assert_eq!(data("data: a\n\ndata:b\n\n"), ["a", "b"]);
        assert_eq!(data("data: a\r\n\r\ndata: b\r\rdata: c\n\n"), ["a", "b", "c"]);
        assert_eq!(data("data: a\ndata:  b\n\n"), ["a\n b"]);
        assert_eq!(data(": ping\n\n\n\n:\n\ndata: a\nid: 7\nretry: 9\nunknown\n\n"), ["a"]);
        assert_eq!(data("\u{feff}data: a\n\n"), ["a"]);
        assert_eq!(data("data\n\n"), [""]);
        assert_eq!(data("data: a"), ["a"], "the end of the stream ends the event");
        assert_eq!(data("data: a\n"), ["a"]);
        assert_eq!(data(""), [""; 0]);
        assert_eq!(
            events(&[b"event: error\ndata: x\n\ndata: y\n\n"]),
            [("error".to_owned(), "x".to_owned()), (String::new(), "y".to_owned())]
        );
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same_events(
            bytes in prop::collection::vec(
                prop_oneof![
                    Just(b"data: ".to_vec()), Just(b"\n".to_vec()), Just(b"\r".to_vec()), Just("é🦀".into()),
                    Just(b"event:x".to_vec()), Just(b": c".to_vec()), Just(vec![0xff]), Just("\u{feff}".into()),
                ],
                0..20,
            ),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
        ) {
            let bytes = bytes.concat();
            let mut ends: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
            ends.sort_unstable();
            ends.push(bytes.len());
            let mut start = 0;
            let pieces: Vec<&[u8]> = ends.into_iter().map(|end| {
                let piece = &bytes[start..end];
                start = end;
                piece
            }).collect();
            prop_assert_eq!(events(&pieces), events(&[&bytes]));
        }
    }
}
