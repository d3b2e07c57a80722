//! How much of the token budget and of the model's window is used.

use crate::bounds::Bounds;
use crate::conversation::{Conversation, Trimmed, reply_size};
use crate::message::Reply;
use crate::tool::ToolSpec;

/// Bytes that make a token, about, in English and in code.
const BYTES_PER_TOKEN: u64 = 4;

/// Tokens used so far, and the size of the next request.
#[derive(Debug)]
pub(crate) struct Window {
    /// Of the model, in tokens.
    size: u64,
    /// Bytes of the descriptions of the tools, sent with every request.
    overhead: usize,
    /// What the last reply said of the conversation at that time: tokens and bytes.
    measured: Option<(u64, usize)>,
    /// All requests and replies: reported where known, estimated elsewhere.
    spent: u64,
    /// The sum as reported, unless a reply lacked it.
    reported: Option<u64>,
}

impl Window {
    pub(crate) fn new(bounds: &Bounds, tools: &[ToolSpec]) -> Self {
        let size =
            |tool: &ToolSpec| tool.name.len() + tool.description.len() + tool.parameters.to_string().len();
        Window {
            size: bounds.context_tokens,
            overhead: tools.iter().map(size).sum(),
            measured: None,
            spent: 0,
            reported: Some(0),
        }
    }

    pub(crate) fn spent(&self) -> u64 {
        self.spent
    }

    pub(crate) fn reported(&self) -> Option<u64> {
        self.reported
    }

    /// Counts a reply to the conversation, before it is added.
    pub(crate) fn count(&mut self, conversation: &Conversation, reply: &Reply) {
        let bytes = conversation.bytes() + reply_size(reply);
        let estimate = self.tokens(bytes + self.overhead);
        // Servers that do not count say zero.
        let reported = reply.tokens.filter(|tokens| *tokens > 0);
        self.spent = self.spent.saturating_add(reported.unwrap_or(estimate));
        self.reported = self.reported.zip(reported).map(|(sum, tokens)| sum.saturating_add(tokens));
        // No token is shorter than a byte: a server that says so is not believed.
        self.measured = reported.map(|tokens| (tokens.min((bytes + self.overhead) as u64), bytes));
    }

    /// Shortens the conversation if it is near the end of the window.
    pub(crate) fn fit(&mut self, conversation: &mut Conversation) -> Trimmed {
        let estimate = self.estimate(conversation);
        if estimate <= self.size - self.size / 4 {
            return Trimmed::default();
        }
        self.shorten(conversation, estimate, self.size / 2)
    }

    /// Shortens the conversation by half: the window is smaller than was thought.
    pub(crate) fn overflowed(&mut self, conversation: &mut Conversation) -> Trimmed {
        let estimate = self.estimate(conversation);
        self.size = self.size.min(estimate);
        self.shorten(conversation, estimate, estimate / 2)
    }

    fn shorten(&mut self, conversation: &mut Conversation, estimate: u64, wanted: u64) -> Trimmed {
        let too_many = estimate.saturating_sub(wanted).saturating_mul(BYTES_PER_TOKEN);
        let before = conversation.bytes();
        let trimmed = conversation.shorten(before.saturating_sub(too_many as usize));
        let saved = self.tokens(before.saturating_sub(conversation.bytes()));
        self.measured = Some((estimate.saturating_sub(saved), conversation.bytes()));
        trimmed
    }

    /// Tokens of the next request: what was reported last and a quarter of the bytes since, or else of all bytes.
    fn estimate(&self, conversation: &Conversation) -> u64 {
        match self.measured {
            Some((tokens, bytes)) => {
                tokens.saturating_add(self.tokens(conversation.bytes().saturating_sub(bytes)))
            }
            None => self.tokens(conversation.bytes() + self.overhead),
        }
    }

    fn tokens(&self, bytes: usize) -> u64 {
        (bytes as u64).div_ceil(BYTES_PER_TOKEN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Message;

    fn window(context_tokens: u64) -> Window {
        Window::new(&Bounds { context_tokens, ..Bounds::default() }, &[])
    }

    fn conversation(results: usize) -> Conversation {
        let mut conversation = Conversation::default();
        conversation.begin(None, Some(""));
        for n in 0..results {
            conversation.push(Message::Assistant(Reply::default()));
            let text = "r".repeat(400);
            conversation.push(Message::Tool { call_id: n.to_string(), text, is_error: false });
        }
        conversation
    }

    #[test]
    fn it_shortens_from_three_quarters_to_half() {
        let (mut fits, mut too_long) = (conversation(7), conversation(8));
        assert_eq!(window(1_000).fit(&mut fits), Trimmed::default());
        let mut window = window(1_000);
        assert_eq!(window.fit(&mut too_long), Trimmed { results: 4, messages: 0 });
        assert!(window.estimate(&too_long) <= 500);
        assert_eq!(window.fit(&mut too_long), Trimmed::default());
    }

    #[test]
    fn what_the_server_counts_is_worth_more_than_the_estimate() {
        let reply = |tokens| Reply { tokens, ..Reply::default() };
        let mut window = window(1_000);
        // Dense text: two bytes make a token.
        window.count(&conversation(4), &reply(Some(800)));
        assert!(window.fit(&mut conversation(4)).results > 0);
        // A server that counts more tokens than there are bytes does not empty the conversation.
        window.count(&conversation(1), &reply(Some(u64::MAX)));
        assert_eq!(window.estimate(&conversation(1)), 400);
        assert_eq!((window.spent(), window.reported()), (u64::MAX, Some(u64::MAX)));
        window.count(&conversation(1), &reply(None));
        assert_eq!(window.reported(), None);
    }

    #[test]
    fn a_server_that_counts_nothing_is_not_believed() {
        let mut window = window(1_000);
        window.count(&conversation(1), &Reply { tokens: Some(0), ..Reply::default() });
        assert_eq!((window.spent(), window.reported()), (100, None));
    }

    #[test]
    fn an_overflow_halves_until_nothing_is_left_to_leave_out() {
        let (mut window, mut long) = (window(1_000_000), conversation(40));
        let rounds = (0..).take_while(|_| window.overflowed(&mut long) != Trimmed::default()).count();
        assert!((1..10).contains(&rounds), "{rounds}");
        assert_eq!(long.messages().len(), 3);
    }
}
