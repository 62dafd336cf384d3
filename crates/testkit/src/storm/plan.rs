//! What is asked of the handler and what the application does; what may come of that.

use fastrand::Rng;
use serde_json::{Value, json};

/// The longest word, in bytes: an input and an output that span many packets.
const LONGEST_WORD: f64 = 8_000.0;
/// A timeout that outlasts any fault, in milliseconds.
const PATIENT: u64 = 60_000;

/// What running a tool does, which is also its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    Read,
    Idempotent,
    Write,
}

impl Effect {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Idempotent => "idempotent",
            Self::Write => "write",
        }
    }
}

/// What the handler does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Act {
    Answer,
    Fail,
    /// Waits until the call is over.
    Hang,
}

/// How long the application waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Patience {
    /// As long as it takes.
    Patient,
    /// Hardly.
    Short,
    /// It cancels the call after so many milliseconds.
    Cancels(u64),
}

/// How the application learns of the outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Manner {
    /// It waits for the answer.
    Waits,
    /// It makes the call, and asks for the outcome later.
    Asks,
}

/// How a call ended: its status, and its output or its error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) status: String,
    pub(super) text: String,
}

impl Outcome {
    /// Whether the client says that it does not know whether the tool was run.
    pub(super) fn is_unknown(&self) -> bool {
        self.status == "error" && self.text.starts_with("the outcome is unknown")
    }
}

/// A call to be made.
#[derive(Clone)]
pub(super) struct Plan {
    pub(super) request: String,
    pub(super) call: String,
    pub(super) effect: Effect,
    pub(super) act: Act,
    pub(super) patience: Patience,
    pub(super) manner: Manner,
    tool: String,
    timeout: u64,
    /// How long the handler works, in milliseconds.
    work: u64,
    word: String,
}

impl Plan {
    pub(super) fn new(number: usize, client: &str, random: &mut Rng) -> Self {
        let effect = [Effect::Read, Effect::Idempotent, Effect::Write, Effect::Write][random.usize(..4)];
        let (act, patience) = match random.u8(..20) {
            0 => (Act::Answer, Patience::Short),
            1 => (Act::Hang, Patience::Short),
            2 => (Act::Answer, Patience::Cancels(random.u64(..100))),
            3 => (Act::Hang, Patience::Cancels(random.u64(..300))),
            4 | 5 => (Act::Fail, Patience::Patient),
            _ => (Act::Answer, Patience::Patient),
        };
        let manner = if random.u8(..5) == 0 { Manner::Asks } else { Manner::Waits };
        let work = if random.u8(..10) == 0 { random.u64(..400) } else { random.u64(..10) };
        // Each order of magnitude as likely as the others.
        let length = LONGEST_WORD.powf(random.f64()) as usize;
        Self {
            request: format!("{client}-request-{number}"),
            call: format!("{client}-call-{number}"),
            effect,
            act,
            patience,
            manner,
            tool: format!("client_{client}_{}", effect.name()),
            timeout: if patience == Patience::Short { random.u64(20..400) } else { PATIENT },
            work,
            word: (0..length).map(|_| random.alphanumeric()).collect(),
        }
    }

    /// The body of the request that makes the call.
    pub(super) fn body(&self) -> Value {
        json!({
            "toolID": self.tool, "requestID": self.request, "callID": self.call, "timeout": self.timeout,
            "wait": self.manner == Manner::Waits, "input": self.input(),
        })
    }

    fn input(&self) -> Value {
        let act = match self.act {
            Act::Answer => "answer",
            Act::Fail => "fail",
            Act::Hang => "hang",
        };
        json!({ "act": act, "work": self.work, "word": self.word })
    }

    /// What the handler makes of the call.
    pub(super) fn answer(&self) -> Outcome {
        Outcome { status: "success".to_owned(), text: answer(&self.request, &self.word) }
    }

    /// What the handler fails with.
    pub(super) fn failure(&self) -> Outcome {
        Outcome { status: "error".to_owned(), text: failure(&self.request) }
    }

    /// Whether the call may end so.
    pub(super) fn allows(&self, outcome: &Outcome) -> bool {
        match outcome.status.as_str() {
            "success" => self.act == Act::Answer && *outcome == self.answer(),
            "error" => {
                (self.act == Act::Fail && *outcome == self.failure())
                    || (self.effect == Effect::Write && outcome.is_unknown())
            }
            "timeout" => self.patience == Patience::Short,
            "cancelled" => matches!(self.patience, Patience::Cancels(_)),
            _ => false,
        }
    }
}

impl std::fmt::Debug for Plan {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { effect, act, patience, manner, timeout, work, .. } = self;
        write!(formatter, "{effect:?}, {act:?} after {work} ms, {patience:?} within {timeout} ms, {manner:?}")
    }
}

/// What a handler answers.
pub(super) fn answer(request: &str, word: &str) -> String {
    format!("{request} was asked for {word}")
}

/// What a handler fails with.
pub(super) fn failure(request: &str) -> String {
    format!("{request} was asked to fail")
}
