//! The backend of a chat: a session of the server, or an agent that speaks AG-UI.

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
    /// The answer is over: the new state of the thread, and the tokens that the answer cost.
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

    /// Stops the answer of a thread; an event reports its end. Returns false if the answer waits for the user.
    async fn interrupt(&mut self, thread: usize) -> Result<bool, Error>;

    /// Answers a question. An [`Error`] with status 404 means that the question is closed.
    async fn answer(&mut self, question: &Question, answer: Answer) -> anyhow::Result<()>;

    /// Waits for the next events, and returns them with their thread. Safe to drop while it waits.
    async fn next(&mut self) -> (usize, Vec<Event>);

    /// The name of what the answer waits for, if it should be shown.
    fn awaited(&self) -> Option<String> {
        None
    }

    /// Waits until the connection that offers the tools is lost or open again. Returns a message for the user.
    async fn connection_change(&mut self) -> String {
        pending().await
    }

    /// The first lines of a chat: where it is, and how to leave.
    async fn introduction(&mut self) -> Result<String, Error>;

    /// Runs a command of this backend and returns its output; `None` if there is no such command.
    async fn command(&mut self, command: &str, argument: &str) -> anyhow::Result<Option<String>>;

    /// Tidies up when the user leaves, and returns a message for the user.
    async fn leave(&mut self) -> Option<String> {
        None
    }

    /// Prints the answers as JSON.
    fn print_json(&self) -> anyhow::Result<()>;

    /// Stops everything that still runs, and waits for it.
    async fn close(&self);
}
