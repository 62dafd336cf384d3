//! A thread: a conversation, and the run that goes on in it.

use std::collections::VecDeque;

use handback_client::agui::wire::{Interrupt, Resume, ResumeStatus};
use handback_client::agui::{Conversation, Ending, RunError, RunHandle, RunState, View};
use tokio::sync::watch;

use super::ask::refusal;
use super::pieces::{Piece, Pieces};
use super::tools::Times;
use super::usage::Usage;

/// So many messages may wait until a thread has answered; one more is refused.
const MOST_WAITING: usize = 16;

/// The code of an agent that was not told what it must know.
const STILL_OPEN: &str = "interrupts_open";

/// A conversation, and what is shown of it.
pub(super) struct Thread {
    pub(super) standing: Standing,
    /// What was said first.
    pub(super) title: String,
    /// Its latest run.
    pub(super) run: Option<(RunHandle, watch::Receiver<View>)>,
    pub(super) times: Times,
    pub(super) usage: Usage,
    pieces: Pieces,
    /// What the agent must know, as far as is known here.
    pub(super) open: Vec<Interrupt>,
    /// The answers to that, as far as they are given; they may not have reached the agent.
    pub(super) answers: Vec<Resume>,
    waiting: VecDeque<String>,
}

/// Where a thread stands.
#[derive(Debug)]
pub(super) enum Standing {
    /// It can be spoken to.
    Idle,
    /// A run goes on.
    Running,
    /// The user is asked what the agent must know.
    Asking,
    /// The user did not say what the agent must know.
    Unanswered,
    /// The run failed.
    Failed(anyhow::Error),
    /// The user stopped the run.
    Stopped,
}

impl Thread {
    pub(super) fn new() -> Self {
        Self {
            standing: Standing::Idle,
            title: String::new(),
            run: None,
            times: Times::default(),
            usage: Usage::default(),
            pieces: Pieces::default(),
            open: Vec::new(),
            answers: Vec::new(),
            waiting: VecDeque::new(),
        }
    }

    /// Whether something goes on, or the user is asked.
    pub(super) fn is_busy(&self) -> bool {
        matches!(self.standing, Standing::Running | Standing::Asking)
    }

    pub(super) fn conversation(&self) -> Conversation {
        self.run.as_ref().map(|(handle, _)| handle.conversation()).unwrap_or_default()
    }

    /// What is new of it.
    pub(super) fn news(&mut self) -> Vec<Piece> {
        let Some((_, view)) = &mut self.run else { return Vec::new() };
        let view = view.borrow_and_update();
        self.pieces.of(&view.conversation, &self.times)
    }

    /// All that was said since this was last asked, as it is printed.
    pub(super) fn take_answer(&mut self) -> String {
        self.pieces.take_answer()
    }

    /// Takes a message that is said when the thread has answered; false if too many wait.
    pub(super) fn wait(&mut self, text: &str) -> bool {
        if self.waiting.len() >= MOST_WAITING {
            return false;
        }
        self.waiting.push_back(text.to_owned());
        true
    }

    /// What is to be said next.
    pub(super) fn next_message(&mut self) -> Option<String> {
        self.waiting.pop_front()
    }

    /// Notes which calls these answers do not allow.
    pub(super) fn note_rejected(&mut self, answers: &[Resume]) {
        for interrupt in &self.open {
            let answer = answers.iter().find(|answer| answer.interrupt_id == interrupt.id);
            if let (Some(call), Some(answer)) = (&interrupt.tool_call_id, answer)
                && !is_allowed(answer)
            {
                self.pieces.reject(call);
            }
        }
    }

    /// Notes what the agent must know when a run has ended.
    pub(super) fn note_open(&mut self, ending: &Ending) {
        match ending {
            Ending::Ended(RunState::Interrupted(interrupts)) => self.open.clone_from(interrupts),
            // Whether it was told is not known.
            Ending::Ended(RunState::Failed(RunError::Agent(_)) | RunState::Cancelled) => {}
            Ending::Ended(RunState::Failed(RunError::Reported { code: Some(code), .. })) if code == STILL_OPEN => {
                self.open = self.conversation().interrupts().to_vec();
            }
            // It was, or does not want to know it any more.
            _ => self.open.clear(),
        }
    }

    /// Says no to all that the agent must know and was not told.
    pub(super) fn refusals(&self) -> Vec<Resume> {
        self.open.iter().map(|interrupt| refusal(&interrupt.id)).collect()
    }

    /// Where it stands, in a word or two.
    pub(super) fn words(&self) -> &'static str {
        match self.standing {
            Standing::Idle => "idle",
            Standing::Running => "running",
            Standing::Asking | Standing::Unanswered => "asks you",
            Standing::Failed(_) => "failed",
            Standing::Stopped => "stopped",
        }
    }
}

fn is_allowed(answer: &Resume) -> bool {
    let approved = answer.payload.as_ref().and_then(|payload| payload.get("approved")?.as_bool());
    answer.status == ResumeStatus::Resolved && approved != Some(false)
}
