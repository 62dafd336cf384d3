//! Turns that an earlier process left open. Each is entered again like any other turn, and goes on from what is stored.

use std::sync::Arc;
use std::time::Duration;

use ahash::HashSet;
use tokio_util::sync::CancellationToken;

use super::history::History;
use super::live::{Queued, TurnStart};
use super::{Sessions, turn};
use crate::events::Feed;
use crate::id::{MessageId, RunId, SessionId};
use crate::store::{IfFull, Message, OpenTurn, Role, StoreError, TurnError};

/// After this many processes in which a turn came no further, it is given up.
const MOST_LIVES: usize = 10;
/// After this many, the turn pauses before it is entered again, so that others come first.
const PATIENT_LIVES: usize = 2;
/// How long the first pause is at least. Each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// How long a pause is at most, apart from its random part: a turn that ends the process each time is given up within a
/// minute of the server's time.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// The turns that an earlier process left open. Until they begin, nothing changes of what they have told.
#[must_use]
pub struct LeftTurns {
    count: usize,
    beginnings: Vec<TurnStart>,
}

impl LeftTurns {
    /// Lets them begin, and counts them.
    pub fn begin(self) -> usize {
        self.beginnings.into_iter().for_each(TurnStart::begin);
        self.count
    }
}

impl Sessions {
    /// Enters the turns that an earlier process left open. Turns that say too little to go on, because an earlier version
    /// stored them, are marked as interrupted. Reads nothing but the messages of those turns.
    pub async fn recover(&self) -> Result<LeftTurns, StoreError> {
        let (mut left, mut beginnings) = (self.store().open_turns().await?, Vec::new());
        left.sort_by_key(|message| message.turn().map(|turn| turn.since));
        for message in &left {
            let Some(session) = self.find(&message.session).await? else { continue };
            match message.turn() {
                Some(_) => {
                    beginnings.extend(self.enter_again(&session, message));
                    self.continue_left(&session, message);
                }
                None => {
                    let error = TurnError::Aborted("The server was restarted before this turn was over".to_owned());
                    turn::mark_interrupted(self, &session, message, error).await?;
                }
            }
        }
        self.hub().cancel_where(|head| !self.is_busy(&head.session)).await;
        Ok(LeftTurns { count: left.len(), beginnings })
    }

    /// Enters a turn again, perhaps after a pause. Fails if it is given up or aborted.
    pub(crate) async fn begin_life(&self, queued: &mut Queued, abort: &CancellationToken) -> Result<(), TurnError> {
        let Some(turn) = queued.user.turn() else { return Ok(()) };
        let conversation = self.conversation(&queued.user).await.map_err(|error| turn::failed(&error))?;
        let Progress { made, waits } = progress(conversation.turn.iter().rev().take(conversation.own));
        // A turn that waits for its calls does nothing that could end the process.
        let lives = if made > turn.progress || waits { 0 } else { turn.lives + 1 };
        if lives >= MOST_LIVES {
            let error =
                format!("The turn was given up: the server was restarted {lives} times before it came any further");
            return Err(TurnError::Other(error));
        }
        if let Some(doublings) = lives.checked_sub(PATIENT_LIVES)
            && abort.run_until_cancelled(tokio::time::sleep(self.pause(doublings))).await.is_none()
        {
            return Err(self.stopped());
        }
        // Only now: a process that ends during the pause does not count against the turn. The message may have changed.
        let user = self.current(&queued.user);
        queued.user = match user.turn() {
            Some(turn) => user.in_turn(OpenTurn { progress: made, lives, ..turn.clone() }),
            None => user,
        };
        self.save_message(&queued.user, IfFull::Waits).await.map_err(|error| turn::failed(&error))
    }

    /// How long a turn waits before it is entered again. Of two turns of which one ends the process, the other one comes first
    /// sooner or later: chance decides, and then the one that is entered counts a life more.
    fn pause(&self, doublings: usize) -> Duration {
        let pause = (FIRST_PAUSE * 2_u32.pow(doublings as u32)).min(LONGEST_PAUSE);
        pause + pause.mul_f64(self.clock().fraction())
    }

    /// A user's message as it was last saved, if that is known here.
    pub(crate) fn current(&self, user: &Arc<Message>) -> Arc<Message> {
        let held = self.0.held.get(&user.session);
        held.and_then(|held| held.history(|history| history.get(&user.id).cloned())).unwrap_or_else(|| user.clone())
    }

    /// Notes that another run tells of a running turn from now on.
    pub(super) async fn move_to_run(
        &self,
        session: &SessionId,
        user: &MessageId,
        run: &RunId,
    ) -> Result<(), StoreError> {
        if let Some(live) = self.live(session).get_mut(session).filter(|live| live.is_running(user)) {
            live.run = Some(run.clone());
        }
        let moved = |history: &History| {
            let known = history.get(user).filter(|known| known.turn().is_some());
            (known.map(|known| known.in_run(run)).into_iter().collect(), ())
        };
        self.0.held.edit(session, IfFull::Fails, moved).await
    }

    /// The feeds of the open turns that a run tells of.
    pub(super) fn feeds_of_run(&self, session: &SessionId, run: &RunId) -> Vec<Feed> {
        self.live(session).get(session).map(|live| live.feeds_of_run(run)).unwrap_or_default()
    }

    /// All answers of the turns that a run of an earlier process tells of, whether it has told of them or not: a turn may
    /// have ended before the run could tell so. `None` if the run has no turn.
    pub(super) async fn answers_in_run(
        &self,
        session: &SessionId,
        run: &RunId,
    ) -> Result<Option<Vec<Arc<Message>>>, StoreError> {
        let held = self.hold(session).await?;
        Ok(held.history(|history| {
            let users: HashSet<&MessageId> =
                history.all().filter(|message| message.run() == Some(run)).map(|message| &message.id).collect();
            let is_its = |answer: &&Arc<Message>| answer.answers().is_some_and(|user| users.contains(user));
            (!users.is_empty()).then(|| history.all().filter(is_its).cloned().collect())
        }))
    }
}

/// How far a turn has come.
#[derive(Default)]
struct Progress {
    /// Counts its answers, their ends and the ends of their calls.
    made: usize,
    /// Whether its last step waits for calls.
    waits: bool,
}

/// How far a turn with these answers has come, the newest answer first.
fn progress<'a>(answers: impl Iterator<Item = &'a Arc<Message>>) -> Progress {
    let mut progress = Progress::default();
    for (place, answer) in answers.enumerate() {
        let Role::Assistant(said) = &answer.role else { continue };
        if said.finish.is_some() || said.completed.is_some() {
            progress.made += 1 + usize::from(said.completed.is_some());
            progress.made += answer.parts.iter().filter(|part| part.is_completed_call()).count();
            progress.waits |= place == 0 && answer.parts.iter().any(|part| part.is_running());
        }
    }
    progress
}
