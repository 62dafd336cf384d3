//! The front end answers the interrupts that an earlier run has ended with.

use std::collections::HashSet;

use handback_core::id::PermissionId;
use handback_core::permission::{Answer, NotAnswered, Reply};
use handback_core::sessions::{Feed, RunEvent};

use super::begin::{Beginning, nothing_new};
use super::decode;
use super::encode::Point;
use super::run::{Run, Turn};
use crate::problem::Problem;

/// Why answers cannot be taken; nothing was answered.
type Refused = (&'static str, String);

impl Beginning<'_> {
    /// Answers the questions that an earlier run ended with, and tells how its turn goes on.
    pub(super) async fn resume(mut self) -> Result<Run, Problem> {
        let feed = self.sessions().feed(&self.session.id);
        let answers = match self.answers(feed.as_ref()).await {
            Ok(answers) => answers,
            Err((code, message)) => return Ok(self.failed(code, message)),
        };
        // What the user says besides comes after it.
        let later = self.say().await?;
        let mut encoder = self.encoder();
        let mut turns = Vec::new();
        if let Some(feed) = &feed {
            if let Some(ask) = last_asked(feed, &answers) {
                encoder.pass_over(Point::Ask(ask));
            }
            let stored = self.sessions().messages(&self.session.id).await?;
            let user = stored.into_iter().find(|message| message.id == *feed.user()).ok_or_else(nothing_new)?;
            turns.push(Turn::new(self.app, user, feed, self.reader));
        }
        turns.extend(later.and_then(|prompted| Some(Turn::new(self.app, prompted.user, &prompted.feed?, self.reader))));
        for (ask, answer) in answers {
            match self.sessions().answer(&ask, &self.principal.caller(), answer).await {
                // Somebody else was quicker.
                Ok(_) | Err(NotAnswered::Unknown(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        match turns.is_empty() {
            // Nobody can follow the turn: its answer will be in the thread.
            true => Ok(Run::new(self.app, encoder, self.reader).ended()),
            false => Ok(self.run(encoder).of(turns)),
        }
    }

    /// What is to be answered: all of it can be, or nothing is.
    async fn answers(&self, feed: Option<&Feed>) -> Result<Vec<(PermissionId, Answer)>, Refused> {
        let mut answers = Vec::with_capacity(self.input.resume.len());
        let mut known = HashSet::new();
        for resume in &self.input.resume {
            let id = &resume.interrupt_id;
            let invalid = |reason: &str| ("invalid_resume", format!("The answer to interrupt {id}: {reason}"));
            let (ask, answer) = decode::answer(resume).map_err(|reason| invalid(&reason))?;
            if !known.insert(ask.clone()) {
                return Err(invalid("there are two"));
            }
            self.must_be_answerable(feed, &ask, &answer).await?;
            answers.push((ask, answer));
        }
        // An answer for all calls of a tool comes last: it must not answer what has an answer of its own.
        answers.sort_by_key(|(_, answer)| answer.reply == Reply::Always);
        Ok(answers)
    }

    /// Whether a question was asked in this thread, and can be answered so, or has been.
    async fn must_be_answerable(&self, feed: Option<&Feed>, id: &PermissionId, answer: &Answer) -> Result<(), Refused> {
        let open = self.app.hub().ask(id).filter(|ask| ask.call.session == self.session.id);
        let told = feed.and_then(|feed| ask_told(feed, id));
        let Some(ask) = open else {
            return match told {
                None => Err(("unknown_interrupt", format!("There is no open interrupt {id} in this thread"))),
                Some(Some(is_allowed)) if is_allowed != (answer.reply != Reply::Reject) => {
                    Err(("unknown_interrupt", format!("Interrupt {id} was answered otherwise, or its time is over")))
                }
                Some(_) => Ok(()),
            };
        };
        if !self.principal.caller().may_touch(ask.call.client(), &ask.call.session) {
            return Err(("unknown_interrupt", format!("Interrupt {id} is not yours to answer")));
        }
        let Some(input) = &answer.input else { return Ok(()) };
        let hub = self.app.hub();
        hub.schemas().check(&ask.call.tool.spec.schema, input, hub.limits()).await.map_err(|error| {
            let message = format!("The answer to interrupt {id}: `editedArgs` does not fit the tool: {error}");
            ("invalid_resume", message)
        })
    }
}

/// What a turn has told of a question: whether it was allowed, if that is known; `None` if it was not asked.
fn ask_told(feed: &Feed, id: &PermissionId) -> Option<Option<bool>> {
    let told = |event: &RunEvent| match event {
        RunEvent::Asked(ask) if ask.id == *id => Some(None),
        RunEvent::Answered(ask, reply) if ask.id == *id => Some(Some(*reply != Reply::Reject)),
        _ => None,
    };
    feed.look(|events| events.iter().rev().find_map(told))
}

/// Of these questions, the one that a turn has asked last.
fn last_asked(feed: &Feed, answers: &[(PermissionId, Answer)]) -> Option<PermissionId> {
    let told = |event: &RunEvent| match event {
        RunEvent::Asked(ask) if answers.iter().any(|(id, _)| *id == ask.id) => Some(ask.id.clone()),
        _ => None,
    };
    feed.look(|events| events.iter().rev().find_map(told))
}
