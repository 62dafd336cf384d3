//! What a chat talks with: a session of the server, or an agent that speaks AG-UI.

use std::future::pending;

use handback_client::Error;
use handback_wire::session::Tokens;

use super::piece::Piece;
use super::question::{Answer, Question};

/// What happens in a thread.
#[derive(Debug)]
pub(super) enum Event {
    /// There is something to show.
    Show(Vec<Piece>),
    /// The user is asked something.
    Ask(Question),
    /// The question with this id is closed.
    AskClosed(String),
    /// The answer is over: the state of the thread then, and what the answer cost.
    Ended(ThreadState, Tokens),
}

/// The state of a thread.
#[derive(Debug, Default)]
pub(super) enum ThreadState {
    /// The last answer is complete, or nothing was said yet.
    #[default]
    Idle,
    /// An answer comes, or waits for the user.
    Busy,
    /// The user left a question of the agent open.
    Unanswered,
    /// The answer failed.
    Failed(anyhow::Error),
    /// The user stopped the answer.
    Stopped,
}

/// Who answers in the threads of a chat. Threads are counted from 1.
pub(super) trait Backend {
    /// The text of `/help`.
    const HELP: &'static str;
    /// Whether there may be several threads. The user then manages them by commands and may type while they answer.
    const HAS_THREADS: bool;

    /// Says something in a thread that is not busy.
    fn say(&mut self, thread: usize, text: &str) -> anyhow::Result<()>;

    /// Asks again for an answer that failed, was stopped or waits for the user. Only backends with threads need it.
    fn retry(&mut self, _thread: usize) -> anyhow::Result<()> {
        Ok(())
    }

    /// Stops the answer of a thread; an event tells its end. Returns false if no answer comes, because it waits for the user.
    async fn interrupt(&mut self, thread: usize) -> Result<bool, Error>;

    /// Answers a question. An [`Error`] with status 404 means that the question is closed.
    async fn answer(&mut self, question: &Question, answer: Answer) -> anyhow::Result<()>;

    /// Waits for the next events, and returns the thread of which they are. Safe to drop while it waits.
    async fn next(&mut self) -> (usize, Vec<Event>);

    /// Who the answer waits for, if that is to be shown.
    fn awaited(&self) -> Option<String> {
        None
    }

    /// Waits until the connection that offers the tools is lost or open again. Returns what to tell the user.
    async fn connection_change(&mut self) -> String {
        pending().await
    }

    /// The first lines of a chat: where it is, and how to leave.
    async fn introduction(&mut self) -> Result<String, Error>;

    /// Runs a command of this backend and returns its output; `None` if there is no such command.
    async fn command(&mut self, command: &str, argument: &str) -> anyhow::Result<Option<String>>;

    /// Tidies up when the user leaves, and returns what to tell them.
    async fn leave(&mut self) -> Option<String> {
        None
    }

    /// Prints the answers as JSON.
    fn print_json(&self) -> anyhow::Result<()>;

    /// Stops all that still runs, and waits until it has stopped.
    async fn close(&self);
}
