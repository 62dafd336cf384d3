//! A turn goes on: with what came of the front end's calls, once more after a failure, or as somebody else has gone on.

use std::collections::HashSet;
use std::sync::Arc;

use handback_core::id::MessageId;
use handback_core::message::{Message, PartBody, Role, Session};
use handback_core::sessions::{SessionError, Sessions};
use handback_wire::error::ErrorCode;

use super::begin::{Beginning, nothing_new};
use super::encode::Point;
use super::run::{Continuation, Reader, Run, Turn};
use crate::api::page::{self, Known};
use crate::app::App;
use crate::problem::Problem;

/// How a turn goes on.
pub(super) enum Next {
    /// It is under way.
    Turn(Turn),
    /// It is over, with these answers.
    Stored(Vec<Arc<Message>>),
}

/// Goes on after an answer of a turn, its last one if none is named. Of several who want that at once one does, and the
/// others follow.
pub(super) async fn after(
    app: &App,
    user: &Arc<Message>,
    last: Option<&MessageId>,
    continuation: Continuation,
    reader: Reader,
) -> Result<Next, Problem> {
    let sessions = app.sessions();
    let Continuation { session, audience, results } = continuation;
    let answers = page::answers(sessions.messages(&session.id).await?, &user.id);
    let last = last.cloned().or_else(|| answers.last().map(|answer| answer.id.clone())).ok_or_else(nothing_new)?;
    let later = || async {
        let mut later = page::answers(sessions.messages(&session.id).await?, &user.id);
        let place = later.iter().position(|answer| answer.id == last).map_or(0, |place| place + 1);
        Ok::<_, Problem>(later.split_off(place))
    };
    let gone_on = match later().await?.last() {
        None => sessions.go_on(&session, user, &last, audience, results).await,
        // It went on before, and failed.
        Some(latest) if latest.error().is_some() => sessions.try_again(&session, user, audience),
        Some(_) => Err(SessionError::DuplicateMessage(user.id.clone())),
    };
    match gone_on {
        Ok(prompted) => {
            let feed = prompted.feed.ok_or_else(nothing_new)?;
            Ok(Next::Turn(Turn::new(app, prompted.user, &feed, reader)))
        }
        // Somebody else goes on with it, or has gone on.
        Err(SessionError::DuplicateMessage(_)) => match sessions.feed_of(&session.id, &user.id) {
            Some(feed) => Ok(Next::Turn(Turn::new(app, user.clone(), &feed, reader))),
            None => {
                let mut answers = later().await?;
                answers.retain(|answer| !answer.failed_without_calls());
                Ok(Next::Stored(answers))
            }
        },
        Err(error) => Err(error.into()),
    }
}

impl Beginning<'_> {
    /// The front end says what came of its calls.
    pub(super) async fn go_on(mut self) -> Result<Run, Problem> {
        let stored = self.sessions().messages(&self.session.id).await?;
        let calls: HashSet<&str> = self.input.results.iter().map(|(call, _)| call.as_str()).collect();
        let Known { user, last, is_current } = page::known(&stored, &calls).ok_or_else(nothing_new)?;
        if !is_current {
            let results = std::mem::take(&mut self.input.results);
            self.sessions().keep_late(&self.session, &user.id, results).await?;
            let problem = "the conversation has gone on since; nothing is answered to this";
            return Err(Problem::new(ErrorCode::Conflict, problem));
        }
        let mut encoder = self.encoder();
        if let Some(feed) =
            self.sessions().feed_of(&self.session.id, &user.id).filter(|feed| page::has_told(feed, &last))
        {
            // It is not done, and goes on when it is. The front end knows it up to its calls.
            encoder.pass_over(Point::Calls(last));
            let turn = Turn::new(self.app, user, &feed, self.reader);
            return Ok(self.run(encoder).of([turn]));
        }
        let continuation = self.continuation();
        match after(self.app, &user, Some(&last), continuation, self.reader).await? {
            Next::Turn(turn) => Ok(Run::new(self.app, encoder, self.reader).of([turn])),
            Next::Stored(answers) => {
                answers.iter().for_each(|answer| encoder.stored(answer));
                Ok(Run::new(self.app, encoder, self.reader).ended())
            }
        }
    }

    /// There is nothing new: the last turn failed, and is tried again.
    pub(super) async fn try_again(mut self) -> Result<Run, Problem> {
        let user = failed_turn(self.sessions(), &self.session).await?.ok_or_else(nothing_new)?;
        let prompted = self.sessions().try_again(&self.session, &user, self.audience())?;
        Ok(self.run_of(prompted))
    }
}

/// What the user said last, if its turn failed or was stopped.
pub(super) async fn failed_turn(sessions: &Sessions, session: &Session) -> Result<Option<Arc<Message>>, Problem> {
    let stored = sessions.messages(&session.id).await?;
    let wants_reply = |message: &&Arc<Message>| matches!(&message.role, Role::User(said) if said.wants_reply);
    let Some(user) = stored.iter().rfind(wants_reply).cloned() else { return Ok(None) };
    let has_failed = page::answers(stored, &user.id).pop().is_some_and(|last| last.error().is_some());
    Ok(has_failed.then_some(user))
}

/// Whether one of these calls is open, and the front end's to run.
pub(super) async fn has_open_call(
    sessions: &Sessions,
    session: &Session,
    calls: &HashSet<&str>,
) -> Result<bool, Problem> {
    let stored = sessions.messages(&session.id).await?;
    let mut parts = stored.iter().flat_map(|message| &message.parts).filter(|part| part.is_yielded());
    Ok(parts.any(|part| matches!(&part.body, PartBody::Tool(tool) if calls.contains(tool.call.as_str()))))
}
