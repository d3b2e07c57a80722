//! Colour, where it is wanted.

use anstream::stream::RawStream;
use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};

/// What a word is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    Plain,
    /// Of little weight.
    Faint,
    /// What the model wants done.
    Call,
    Good,
    Doubtful,
    Bad,
}

/// Paints, or does not.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Paint(bool);

impl Paint {
    /// Paints on a terminal, unless `NO_COLOR`, `CLICOLOR` or `TERM` speak against it.
    pub(crate) fn on<S: RawStream>(stream: &S) -> Self {
        Paint(AutoStream::choice(stream) != ColorChoice::Never)
    }

    #[cfg(test)]
    pub(crate) fn always(on: bool) -> Self {
        Paint(on)
    }

    /// The text, which has to be safe to show, in this tone.
    pub(crate) fn tone(self, tone: Tone, text: &str) -> String {
        let style = style(tone);
        if !self.0 || style.is_plain() { text.to_owned() } else { format!("{style}{text}{style:#}") }
    }
}

fn style(tone: Tone) -> Style {
    match tone {
        Tone::Plain => Style::new(),
        Tone::Faint => Style::new().dimmed(),
        Tone::Call => AnsiColor::Cyan.on_default(),
        Tone::Good => AnsiColor::Green.on_default(),
        Tone::Doubtful => AnsiColor::Yellow.on_default(),
        Tone::Bad => AnsiColor::Red.on_default(),
    }
}
