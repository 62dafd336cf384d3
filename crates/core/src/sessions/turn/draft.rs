//! The message of a step while it is written: the model's pieces grow into parts, and listeners see each change.

use std::sync::Arc;

use futures_util::FutureExt;
use serde_json::value::RawValue;
use smol_str::SmolStr;

use super::calls::{MAY_HAVE_RUN, Over, ReadyCall, read};
use crate::clock::Time;
use crate::events::{Feed, Field, SessionEvent, TurnEvent};
use crate::id::{MessageId, PartId, RequestId};
use crate::sessions::Sessions;
use crate::sessions::model::ModelEvent;
use crate::store::{
    IfFull, Kept, Message, Part, PartBody, Role, Session, Span, StopReason, StoreFuture, ToolPart, ToolResult,
    ToolState, TurnError, Usage,
};
use crate::tools::Offered;

/// A text up to this length is sent whole with every piece. A longer text is sent whole each time it has grown by a
/// sixteenth, so that the total cost stays proportional to its length.
const SHOWN_WHOLE: usize = 4_096;
/// The initial capacity of a text: most texts fit without moving.
const USUAL_TEXT: usize = 256;

/// The message of a step while it is written.
pub(super) struct Draft {
    sessions: Sessions,
    session: Arc<Session>,
    feed: Option<Feed>,
    message: Message,
    /// The model's names of tools that differ from the tools' ids, with the ids.
    aliases: Vec<(SmolStr, SmolStr)>,
    /// The text that is growing. It becomes a part when something else begins.
    growing: Option<Growing>,
    calls: Vec<CallDraft>,
    usage: Usage,
    stop: Option<StopReason>,
    /// The last save, until it has ended.
    saving: Option<StoreFuture<()>>,
    /// Whether something has changed since that save.
    is_unsaved: bool,
}

struct Growing {
    id: PartId,
    field: Field,
    text: String,
    start: Time,
    told: Shown,
}

/// A call whose arguments are being written.
struct CallDraft {
    index: usize,
    /// Its index among the parts.
    place: usize,
    arguments: String,
    told: Shown,
}

/// How many bytes of a text were sent to listeners.
#[derive(Default)]
struct Shown {
    /// Sent in pieces.
    pieces: usize,
    /// Sent as a whole.
    whole: usize,
}

impl Shown {
    fn shows_whole(&self, length: usize) -> bool {
        length <= SHOWN_WHOLE || (length - self.whole) * 16 >= length
    }
}

impl Draft {
    /// Begins a message, or goes on with one that an earlier process began, and sends that event.
    pub(super) fn new(sessions: &Sessions, session: &Arc<Session>, feed: Option<Feed>, message: Message) -> Self {
        let mut draft = Self {
            sessions: sessions.clone(),
            session: session.clone(),
            feed,
            message,
            aliases: Vec::new(),
            growing: None,
            calls: Vec::new(),
            usage: Usage::default(),
            stop: None,
            saving: None,
            is_unsaved: false,
        };
        if let Role::Assistant(said) = &draft.message.role {
            (draft.stop, draft.usage) = (said.finish, said.usage);
        }
        if draft.is_watched() {
            // A reader of the event must find the message in the store.
            draft.save();
        }
        draft.emit(|| TurnEvent::StepBegan(Arc::new(draft.message.without_parts())));
        if draft.message.parts.is_empty() {
            draft.push(PartBody::StepStart);
        } else {
            // A frontend may act on what it sees, so it sees a call only when the call can be answered.
            let is_held = |part: &Part| matches!(&part.body, PartBody::Tool(tool) if tool.is_of_frontend());
            let parts = draft.message.parts.iter().filter(|part| !(part.is_running() && is_held(part)));
            parts.for_each(|part| draft.tell_part(part));
        }
        draft
    }

    /// Takes note of the tools that the model is offered.
    pub(super) fn know(&mut self, offered: &[Offered]) {
        let renamed = offered.iter().filter(|tool| tool.alias != tool.id());
        self.aliases = renamed.map(|tool| (tool.alias.clone(), tool.id().into())).collect();
    }

    /// Whether anybody listens to the session or follows the turn.
    pub(super) fn is_watched(&self) -> bool {
        self.feed.is_some() || self.sessions.hub().is_watched(&self.session)
    }

    /// Whether the model's answer is complete.
    pub(super) fn is_complete(&self) -> bool {
        self.stop.is_some()
    }

    /// The tokens that the model has used, as far as it said.
    pub(super) fn usage(&self) -> Usage {
        self.usage
    }

    /// Takes a piece of the model's answer.
    pub(super) fn take(&mut self, piece: ModelEvent) -> Result<(), TurnError> {
        match piece {
            ModelEvent::Text(delta) => self.grow(Field::Text)?.text.push_str(&delta),
            ModelEvent::Reasoning(delta) => self.grow(Field::Reasoning)?.text.push_str(&delta),
            ModelEvent::Thought(kept) => {
                self.grow(Field::Reasoning)?;
                self.close_text(Some(kept));
            }
            ModelEvent::CallStarted { index, id, name } => self.start_call(index, id, name)?,
            ModelEvent::Arguments { index, delta } => {
                let call = self.calls.iter_mut().find(|call| call.index == index);
                call.ok_or_else(|| confused("arguments of a call that was not begun"))?.arguments.push_str(&delta);
            }
            ModelEvent::CallEnded { index, kept } => {
                let call = self.calls.iter().find(|call| call.index == index);
                let place = call.ok_or_else(|| confused("the end of a call that was not begun"))?.place;
                self.change(place, |part| part.kept = kept);
            }
            ModelEvent::Kept(kept) => {
                if let Role::Assistant(said) = &mut self.message.role {
                    said.kept = Some(kept);
                }
            }
            ModelEvent::Restarted => self.restart(),
            ModelEvent::Usage(usage) => self.usage = usage,
            ModelEvent::Stop(reason) => {
                self.close_text(None);
                self.tell();
                let has_calls = !self.calls.is_empty();
                self.stop = Some(if has_calls && reason == StopReason::Stop { StopReason::ToolCalls } else { reason });
                // Stored before the calls are made: a later process must not ask the model again.
                if let Role::Assistant(said) = &mut self.message.role {
                    (said.finish, said.usage) = (self.stop, self.usage);
                }
            }
        }
        Ok(())
    }

    fn grow(&mut self, field: Field) -> Result<&mut Growing, TurnError> {
        if self.growing.as_ref().is_some_and(|growing| growing.field != field) {
            self.close_text(None);
        }
        self.has_room()?;
        let clock = self.sessions.clock();
        Ok(self.growing.get_or_insert_with(|| Growing {
            id: clock.part_id(),
            field,
            text: String::with_capacity(USUAL_TEXT),
            start: clock.time(),
            told: Shown::default(),
        }))
    }

    fn has_room(&self) -> Result<(), TurnError> {
        let most = self.sessions.hub().limits().parts_per_message;
        if self.message.parts.len() < most { Ok(()) } else { Err(confused("too many parts in one message")) }
    }

    fn start_call(&mut self, index: usize, id: String, name: String) -> Result<(), TurnError> {
        if self.calls.iter().any(|call| call.index == index) {
            return Err(confused("the same call twice"));
        }
        self.has_room()?;
        self.close_text(None);
        let call = self.sessions.clock().call_id();
        // Some servers give no id, but the answer to the call needs one.
        let provider_call = if id.is_empty() { call.to_string() } else { id };
        self.calls.push(CallDraft {
            index,
            place: self.message.parts.len(),
            arguments: String::with_capacity(USUAL_TEXT),
            told: Shown::default(),
        });
        self.push(PartBody::Tool(ToolPart {
            call,
            provider_call,
            tool: self.id_of(&name),
            alias: name.into(),
            request: None,
            is_cut: false,
            is_half_said: false,
            kept: None,
            state: ToolState::Pending { raw: String::new() },
        }));
        Ok(())
    }

    /// Discards everything that the model has said. Calls are ended first, for listeners that cannot remove a call.
    fn restart(&mut self) {
        self.close_text(None);
        self.end_calls(Some("The provider began its answer anew"));
        self.calls.clear();
        let begun = self.message.parts.iter().take_while(|part| matches!(part.body, PartBody::StepStart)).count();
        for part in self.message.parts.split_off(begun) {
            let (message, part) = (&self.message.id, &part.id);
            self.emit(|| TurnEvent::PartRemoved { message: message.clone(), part: part.clone() });
        }
    }

    /// The id of the tool with this alias; the name itself if there is none.
    fn id_of(&self, name: &str) -> SmolStr {
        let renamed = self.aliases.iter().find(|(alias, _)| alias == name);
        renamed.map_or_else(|| name.into(), |(_, id)| id.clone())
    }

    /// The calls to make, in the model's order.
    pub(super) fn calls(&mut self, offered: &[Offered]) -> Vec<ReadyCall> {
        let (calls, deepest) = (std::mem::take(&mut self.calls), self.sessions.hub().limits().input_depth);
        calls
            .into_iter()
            .filter_map(|call| {
                let PartBody::Tool(part) = &self.message.parts.get(call.place)?.body else { return None };
                let tool = offered.iter().position(|tool| tool.alias == part.alias);
                Some(ReadyCall {
                    place: call.place,
                    call: part.call.clone(),
                    alias: part.alias.clone(),
                    tool,
                    input: read(call.arguments, deepest),
                })
            })
            .collect()
    }

    /// The calls that an earlier process began, each with its index among the parts.
    pub(super) fn running(&self) -> Vec<(usize, ToolPart)> {
        let parts = self.message.parts.iter().enumerate().filter(|(_, part)| part.is_running());
        let call = |(place, part): (usize, &Arc<Part>)| match &part.body {
            PartBody::Tool(tool) => Some((place, tool.clone())),
            _ => None,
        };
        parts.filter_map(call).collect()
    }

    pub(super) fn id(&self) -> &MessageId {
        &self.message.id
    }

    /// A call is about to run. Listeners are told after the message is stored.
    pub(super) fn run(&mut self, place: usize, request: Option<&RequestId>, state: ToolState) {
        self.change(place, |part| {
            part.request = request.cloned();
            part.state = state;
        });
    }

    /// Sends the current state of a call.
    pub(super) fn tell_call(&self, place: usize) {
        if let Some(part) = self.message.parts.get(place) {
            self.tell_part(part);
        }
    }

    /// A call is shown to a frontend, or continues with another input.
    pub(super) fn show(&mut self, place: usize, shown: Box<RawValue>) {
        self.change(place, |part| {
            if let ToolState::Running { input, .. } = &mut part.state {
                *input = shown;
            }
        });
        self.tell_call(place);
    }

    /// Records the end of a call.
    pub(super) fn over(&mut self, over: Over) {
        let Over { place, input, start, result } = over;
        let end = self.sessions.clock().time();
        self.change(place, |part| part.state = ToolState::Done { input, start, end, result });
        self.tell_call(place);
    }

    fn change(&mut self, place: usize, change: impl FnOnce(&mut ToolPart)) {
        let Some(part) = self.message.parts.get_mut(place) else { return };
        if let PartBody::Tool(tool) = &mut Arc::make_mut(part).body {
            change(tool);
        }
    }

    /// Begins a save of the message as it is now. It is not awaited: the store keeps the order of writes, and the last
    /// save is awaited. If an earlier save is still in progress, none begins, so that a slow store does not get the
    /// same parts again and again.
    pub(super) fn save(&mut self) {
        self.is_unsaved = self.saving.as_mut().is_some_and(|saving| saving.now_or_never().is_none());
        if !self.is_unsaved {
            self.saving = Some(self.sessions.save_message(&Arc::new(self.message.clone()), IfFull::Waits));
        }
    }

    /// Begins a save if there was none yet, before the model's next piece is awaited.
    pub(super) fn save_first(&mut self) {
        if self.saving.is_none() {
            self.save();
        }
    }

    /// Hands the message as it is now to the store, which stores it before later writes.
    pub(super) async fn queue(&mut self) {
        self.save();
        while self.is_unsaved {
            self.save_again().await;
        }
    }

    /// Stores the message as it is now.
    pub(super) async fn keep(&mut self) {
        self.queue().await;
        self.wait_for_save().await;
    }

    async fn wait_for_save(&mut self) {
        if let Some(saving) = &mut self.saving
            && let Err(error) = saving.await
        {
            // The message is saved again when it is complete, and a failure of that save counts.
            tracing::warn!(%error, "a message could not be kept while it was written");
        }
        self.saving = None;
    }

    /// Whether something changed during the last save.
    pub(super) fn is_unsaved(&self) -> bool {
        self.is_unsaved
    }

    /// Waits for the save in progress, then saves again. Cancel safe.
    pub(super) async fn save_again(&mut self) {
        self.wait_for_save().await;
        self.save();
    }

    /// Completes the message, or ends it with an error. The caller stores it.
    pub(super) fn complete(mut self, error: Option<TurnError>) -> Arc<Message> {
        self.close_text(None);
        self.end_calls(error.as_ref().map(TurnError::message));
        if error.is_none() {
            let reason = self.stop.unwrap_or(StopReason::Other);
            self.push(PartBody::StepFinish { reason, usage: self.usage });
        }
        if let Role::Assistant(said) = &mut self.message.role {
            said.completed = Some(self.sessions.clock().time());
            said.error = error;
        }
        self.emit(|| TurnEvent::StepDone(Arc::new(self.message.without_parts())));
        Arc::new(self.message)
    }

    /// Ends the calls that are still open. Without an error, yielded calls stay open.
    fn end_calls(&mut self, error: Option<&str>) {
        let now = self.sessions.clock().time();
        for place in 0..self.message.parts.len() {
            let Some(PartBody::Tool(part)) = self.message.parts.get(place).map(|part| &part.body) else { continue };
            let is_half_said = self.stop.is_none() && matches!(part.state, ToolState::Pending { .. });
            let (input, start) = match &part.state {
                ToolState::Done { .. } => continue,
                ToolState::Yielded { .. } if error.is_none() => continue,
                ToolState::Pending { .. } => (crate::schema::empty_object(), now),
                ToolState::Running { input, start } | ToolState::Yielded { input, start } => (input.clone(), *start),
            };
            let may_have_run = match (&part.state, &part.request) {
                (ToolState::Pending { .. }, _) => false,
                (_, Some(request)) => self.sessions.hub().may_have_run(request),
                // It runs here or in the page.
                (_, None) => true,
            };
            let addition = if may_have_run { MAY_HAVE_RUN } else { "" };
            let reason = error.unwrap_or("The turn ended");
            let result = ToolResult::Failed(format!("Not finished: {reason}{addition}"));
            self.change(place, |part| (part.is_cut, part.is_half_said) = (true, is_half_said));
            self.over(Over { place, input, start, result });
        }
    }

    /// Turns the growing text into a part. Reasoning gets the value that its provider wants back.
    fn close_text(&mut self, kept: Option<Kept>) {
        self.tell();
        let Some(growing) = self.growing.take() else { return };
        let Growing { id, field, text, start, .. } = growing;
        let span = Span { start, end: Some(self.sessions.clock().time()) };
        let body = match field {
            Field::Text => PartBody::Text { text, span },
            Field::Reasoning | Field::Arguments => PartBody::Reasoning { text, kept, span },
        };
        let part = Arc::new(Part { id, body });
        self.message.parts.push(part.clone());
        self.tell_part(&part);
    }

    fn push(&mut self, body: PartBody) {
        let part = Arc::new(Part { id: self.sessions.clock().part_id(), body });
        self.message.parts.push(part.clone());
        self.tell_part(&part);
    }

    fn emit(&self, event: impl Fn() -> TurnEvent) {
        if let Some(feed) = &self.feed {
            feed.tell(event());
        }
        self.sessions.hub().tell(&self.session, || SessionEvent::Turn(event()));
    }

    fn tell_part(&self, part: &Arc<Part>) {
        if part.is_shown() {
            self.emit(|| TurnEvent::Part { message: self.message.id.clone(), part: part.clone() });
        }
    }

    /// Sends what has grown since the last time.
    pub(super) fn tell(&mut self) {
        if !self.is_watched() {
            return;
        }
        let mut growing = self.growing.take();
        if let Some(Growing { id, field, text, start, told }) = &mut growing {
            let span = Span { start: *start, end: None };
            let whole = |text: &String| match field {
                Field::Text => PartBody::Text { text: text.clone(), span },
                Field::Reasoning | Field::Arguments => PartBody::Reasoning { text: text.clone(), kept: None, span },
            };
            self.tell_growth(id, *field, text, told, whole);
        }
        self.growing = growing;
        let mut calls = std::mem::take(&mut self.calls);
        for CallDraft { place, arguments, told, .. } in &mut calls {
            let Some(part) = self.message.parts.get(*place).cloned() else { continue };
            let PartBody::Tool(tool) = &part.body else { continue };
            let whole = |raw: &String| {
                PartBody::Tool(ToolPart { state: ToolState::Pending { raw: raw.clone() }, ..tool.clone() })
            };
            self.tell_growth(&part.id, Field::Arguments, arguments, told, whole);
        }
        self.calls = calls;
    }

    fn tell_growth(
        &self,
        id: &PartId,
        field: Field,
        text: &String,
        told: &mut Shown,
        whole: impl Fn(&String) -> PartBody,
    ) {
        if text.len() == told.pieces {
            return;
        }
        let delta: Arc<str> = text[told.pieces..].into();
        let (message, part) = (&self.message.id, id);
        self.emit(|| TurnEvent::Grew { message: message.clone(), part: part.clone(), field, delta: delta.clone() });
        told.pieces = text.len();
        // Followers of the feed have every piece, and need no snapshot.
        if self.sessions.hub().is_watched(&self.session) && told.shows_whole(text.len()) {
            let delta: Arc<str> = text[told.whole..].into();
            let part = Arc::new(Part { id: id.clone(), body: whole(text) });
            let event = SessionEvent::Snapshot { message: self.message.id.clone(), part, delta };
            self.sessions.hub().tell(&self.session, || event);
            told.whole = text.len();
        }
    }
}

fn confused(what: &str) -> TurnError {
    let message = format!("The provider's stream makes no sense: {what}");
    TurnError::Provider { message, status: None, retryable: false }
}
