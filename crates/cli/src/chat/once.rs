//! A chat whose messages are known from the start. All are said at once, each in a thread of its own.

use anyhow::anyhow;

use super::backend::{Backend, ThreadState};
use super::layout::AnswerDisplay;
use super::paint::Ink;
use super::threads::{Chat, Next, TITLE_CHARACTERS};
use crate::exit::Interrupted;
use crate::output::{excerpt, plain, print};
use crate::signals::Signals;

/// Says all messages at once, and prints the answers in their order.
pub(super) async fn run<B: Backend>(
    chat: &mut Chat<B>,
    messages: &[String],
    signals: &mut Signals,
) -> anyhow::Result<()> {
    let is_shared = messages.len() > 1;
    for _ in messages {
        chat.open()?;
    }
    for (number, text) in (1..).zip(messages) {
        if is_shared {
            chat.screen.line(number, Ink::Dim, &format!("> {}", excerpt(text, TITLE_CHARACTERS)))?;
        }
        chat.say(number, text)?;
    }
    let answers = chat.screen.layout.answers;
    let prints_answers = is_shared && answers == AnswerDisplay::OfSingleThread;
    let (mut printed, mut is_stopped) = (0, false);
    while chat.is_busy() {
        match chat.next(signals).await? {
            Next::Ended(number) if is_shared => chat.show_failure(number)?,
            Next::Stop(_) => is_stopped = true,
            Next::Ended(_) | Next::Typed(_) => {}
        }
        while prints_answers && printed < messages.len() && !chat.threads[printed].is_busy() {
            printed += 1;
            let answer = &chat.thread(printed).answer;
            let between = if printed > 1 { "\n" } else { "" };
            let end = if answer.is_empty() || answer.ends_with('\n') { "" } else { "\n" };
            print(&format!("{between}{}{end}", plain(answer)))?;
        }
    }
    if is_stopped {
        return Err(Interrupted("the turn was aborted").into());
    }
    if answers == AnswerDisplay::Never {
        chat.backend.print_json()?;
    }
    outcome(chat)
}

/// An error if any thread has failed.
fn outcome<B>(chat: &mut Chat<B>) -> anyhow::Result<()> {
    let all = chat.threads.len();
    let states = chat.threads.drain(..).map(|thread| thread.state);
    let failures = states.filter_map(|state| if let ThreadState::Failed(error) = state { Some(error) } else { None });
    let mut failures: Vec<anyhow::Error> = failures.collect();
    match failures.len() {
        0 => Ok(()),
        1 if all == 1 => Err(failures.remove(0)),
        failed => Err(anyhow!("{failed} of {all} answers failed")),
    }
}
