//! What endpoints that speak the same protocol differ in.

/// What an endpoint wants. The default is as plain as the protocol allows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Dialect {
    /// The role of the system text.
    pub system_role: SystemRole,
    /// What stands for the text of a turn that only calls tools.
    pub missing_text: MissingText,
    /// Whether the model's thinking goes back to it.
    pub reasoning: ReasoningEcho,
    /// The most tokens of one reply, under the name the endpoint takes. Not sent unless set.
    pub reply_limit: Option<ReplyLimit>,
    /// Not sent unless set: some models refuse it.
    pub temperature: Option<f64>,
    /// Whether the reply is asked for in pieces. Either is read, whatever was asked for.
    pub streaming: Streaming,
}

/// The role of the system text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SystemRole {
    /// `system`, which nearly every server takes.
    #[default]
    System,
    /// `developer`.
    Developer,
    /// None: the text is put before the first text of the user, for models without such a role.
    User,
}

/// What stands for text that is not there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MissingText {
    /// `""`.
    #[default]
    Empty,
    /// `null`.
    Null,
}

/// Under which name the thinking of earlier replies is sent back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReasoningEcho {
    /// It is not: many servers refuse it, and it costs tokens.
    #[default]
    No,
    /// As `reasoning_content`.
    ReasoningContent,
    /// As `reasoning`.
    Reasoning,
}

/// The most tokens of one reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyLimit {
    /// As `max_tokens`, the older name.
    MaxTokens(u64),
    /// As `max_completion_tokens`.
    MaxCompletionTokens(u64),
}

/// How a reply is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Streaming {
    /// In one piece.
    #[default]
    Off,
    /// In pieces, and the tokens used at their end (`stream_options`).
    WithUsage,
    /// In pieces, for servers that refuse `stream_options`. The tokens used stay unknown unless told unasked.
    WithoutUsage,
}
