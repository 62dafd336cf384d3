//! What a chat talks with: a session of the server, or an agent that speaks AG-UI.

use std::future::pending;

use handback_client::Error;
use handback_wire::session::Tokens;

use super::layout::CallStyle;
use super::piece::Piece;
use super::question::{Answer, Approval, Question};

/// What happens in a thread.
#[derive(Debug)]
pub(super) enum Event {
    /// There is something to show.
    Show(Vec<Piece>),
    /// The user is asked something.
    Ask(Question),
    /// The question with this id is not open any more.
    AskClosed(String),
    /// The thread has answered, or given up: how it stands then, and what that cost.
    Ended(Standing, Tokens),
}

/// How a thread stands.
#[derive(Debug, Default)]
pub(super) enum Standing {
    /// It can be spoken to.
    #[default]
    Idle,
    /// An answer comes, or waits for the user.
    Busy,
    /// The user did not say what the agent must know.
    Unanswered,
    /// The answer failed.
    Failed(anyhow::Error),
    /// The user stopped the answer.
    Stopped,
}

/// Who answers in the threads of a chat, which are counted from 1.
pub(super) trait Backend {
    /// What `/help` says.
    const HELP: &'static str;
    /// Whether there may be several threads. The user then leads them by commands and is listened to while they answer.
    const HAS_THREADS: bool;
    /// How calls are shown.
    const CALL_STYLE: CallStyle;

    /// Says something in a thread in which nothing goes on.
    fn say(&mut self, thread: usize, text: &str) -> anyhow::Result<()>;

    /// Asks again for what failed, was stopped or was not answered.
    fn retry(&mut self, thread: usize) -> anyhow::Result<()>;

    /// Stops what goes on in a thread, whose end is told as an event. False if nothing does, since it waits for the user.
    async fn interrupt(&mut self, thread: usize) -> Result<bool, Error>;

    /// Gives the answer to a question, which was decided by the user or for them. An [`Error`] with status 404 says that the
    /// question is not open any more.
    async fn answer(&mut self, question: &Question, answer: Answer, by: Approval) -> anyhow::Result<()>;

    /// What happens next, and in which thread. Waits for ever if nothing goes on. Safe to drop while it waits.
    async fn next(&mut self) -> (usize, Vec<Event>);

    /// Who is waited for, if that is shown.
    fn awaited(&self) -> Option<String> {
        None
    }

    /// Waits until the connection that offers the tools is lost, or is there again if it was lost.
    async fn connection_change(&mut self, _was_lost: bool) -> String {
        pending().await
    }

    /// The first lines of a chat: where this is, and how to leave.
    async fn introduction(&mut self) -> Result<String, Error>;

    /// Does what a command of its own says, and gives what to show; `None` if there is no such command.
    async fn command(&mut self, command: &str, argument: &str) -> anyhow::Result<Option<String>>;

    /// The user leaves: what to tell them.
    async fn leave(&mut self) -> Option<String> {
        None
    }

    /// Prints the answers as JSON.
    fn print_json(&self) -> anyhow::Result<()>;
}
