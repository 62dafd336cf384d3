//! What the protocols have in common by which pages talk to a session: tools of the page itself, and how what a page
//! sends fits what is stored.

use std::collections::HashSet;
use std::sync::Arc;

use handback_core::Hub;
use handback_core::event::SessionEvent;
use handback_core::id::{MessageId, ToolName};
use handback_core::message::{Message, Part, PartBody, Role, Session};
use handback_core::sessions::{Audience, Feed, RunEvent, SessionError, Sessions};
use handback_core::tool::{Effect, ToolSpec};
use handback_core::toolbox::Offered;
use handback_wire::error::ErrorCode;
use serde_json::value::RawValue;

use crate::problem::Problem;

/// A tool as a page brings it along.
pub(super) struct PageTool {
    pub(super) name: String,
    pub(super) description: String,
    /// Its JSON Schema.
    pub(super) parameters: Option<Box<RawValue>>,
}

/// Reads the tools of a page.
pub(super) async fn tools(hub: &Hub, tools: Vec<PageTool>) -> Result<Vec<Arc<ToolSpec>>, Problem> {
    let most = hub.limits().tools_per_client;
    if tools.len() > most {
        return Err(Problem::new(ErrorCode::TooLarge, format!("{} tools; at most {most} are allowed", tools.len())));
    }
    let mut specs = Vec::with_capacity(tools.len());
    for tool in tools {
        let name = ToolName::parse(&tool.name)?;
        let schema = hub.schemas().compile(tool.parameters.as_deref(), hub.limits()).await.map_err(|error| {
            Problem::invalid(format!("the `parameters` of tool \"{name}\" cannot be used: {error}"))
        })?;
        let (description, effect) = (tool.description, Effect::Write);
        specs.push(Arc::new(ToolSpec { name, description, schema, timeout: None, effect, version: None }));
    }
    Ok(specs)
}

/// Reads the messages of a history, each at its place; many of them where nobody else waits.
pub(super) async fn read_all<T: Send + 'static>(
    hub: &Hub,
    messages: &Arc<[Box<RawValue>]>,
    read: impl Fn(&RawValue, usize) -> Result<T, Problem> + Send + 'static,
) -> Result<Vec<T>, Problem> {
    let bytes: usize = messages.iter().map(|message| message.get().len()).sum();
    let messages = messages.clone();
    let read = move || messages.iter().enumerate().map(|(place, json)| read(json, place)).collect();
    hub.aside().run_for(bytes, read).await.unwrap_or_else(|| Err(Problem::interrupted()))
}

/// Refuses a page whose tools have the names of others: nobody could tell them apart.
pub(super) fn must_not_shadow(page: &[Arc<ToolSpec>], others: &[Offered]) -> Result<(), Problem> {
    for (place, tool) in page.iter().enumerate() {
        let name = tool.name.as_str();
        let is_taken = others.iter().any(|other| other.id() == name || other.alias == name);
        if is_taken || page.iter().take(place).any(|other| other.name == tool.name) {
            let problem = format!("the page's tool \"{name}\" has the name of another; choose another name");
            return Err(Problem::invalid(problem));
        }
    }
    Ok(())
}

/// The turn that a page talks of.
pub(super) struct Known {
    /// The user's message that it answers.
    pub(super) user: Arc<Message>,
    /// The last answer of which the page has a call.
    pub(super) last: MessageId,
    /// Whether the user has said nothing since.
    pub(super) is_current: bool,
}

/// Finds the turn that a page talks of, by calls that it knows.
pub(super) fn known(stored: &[Arc<Message>], calls: &HashSet<&str>) -> Option<Known> {
    let is_known = |part: &Arc<Part>| matches!(&part.body, PartBody::Tool(tool) if calls.contains(tool.call.as_str()));
    let last = stored.iter().rev().find(|message| message.parts.iter().any(is_known))?;
    let user = stored.iter().find(|message| Some(&message.id) == last.answers())?;
    let newest = stored.iter().rev().find(|message| matches!(&message.role, Role::User(said) if said.wants_reply));
    let is_current = newest.is_some_and(|newest| newest.id == user.id);
    Some(Known { user: user.clone(), last: last.id.clone(), is_current })
}

/// What a user's message comes to that comes again.
pub(super) enum Again {
    /// Its turn is under way, after these answers.
    Followed(Vec<Arc<Message>>, Feed),
    /// Its turn ended by itself, with these answers; none if nobody has answered it.
    Ended(Vec<Arc<Message>>),
    /// Its turn broke off before any call of it was completed.
    Failed,
}

/// A user's message comes again. If its turn broke off after a call of it was completed, it goes on from there: nothing
/// that was done is done again.
pub(super) async fn again(
    sessions: &Sessions,
    session: &Arc<Session>,
    id: &MessageId,
    audience: &Audience,
) -> Result<Again, Problem> {
    // Before what is stored: a turn that ends meanwhile is found there.
    let mut feed = sessions.feed_of(&session.id, id);
    if feed.is_none() && sessions.is_answering(&session.id, id) {
        return Err(Problem::new(ErrorCode::Conflict, "this message is being answered elsewhere; try again later"));
    }
    let taken = || SessionError::DuplicateMessage(id.clone());
    let find = |stored: &[Arc<Message>]| stored.iter().find(|message| message.id == *id).cloned();
    let mut stored = sessions.messages(&session.id).await?;
    if find(&stored).is_none() {
        // Perhaps it is being said in place of what it was.
        feed = feed.or_else(|| sessions.feed_of(&session.id, id));
        if let Some(feed) = &feed {
            feed.until_kept().await;
        }
        stored = sessions.messages(&session.id).await?;
    }
    let user = find(&stored).ok_or_else(taken)?;
    if user.answers().is_some() {
        return Err(taken().into());
    }
    let mut told = answers(stored, id);
    let feed = match feed {
        Some(feed) => feed,
        None if !told.last().is_some_and(|last| last.broke_off()) => return Ok(Again::Ended(told)),
        None => {
            told = sessions.recall(session, told).await?;
            if !told.iter().flat_map(|answer| &answer.parts).any(|part| part.is_completed_call()) {
                return Ok(Again::Failed);
            }
            let prompted = match sessions.try_again(session, &user, audience.clone()) {
                // Somebody else was quicker.
                Err(SessionError::DuplicateMessage(_)) => sessions.feed_of(&session.id, id),
                prompted => prompted?.feed,
            };
            prompted.ok_or_else(taken)?
        }
    };
    // What the model was saying when it broke off is said anew.
    told.retain(|answer| !answer.failed_without_calls());
    Ok(Again::Followed(told, feed))
}

/// The answers to a user's message.
pub(super) fn answers(stored: Vec<Arc<Message>>, user: &MessageId) -> Vec<Arc<Message>> {
    stored.into_iter().filter(|message| message.answers() == Some(user)).collect()
}

/// Whether a turn has told of a message.
pub(super) fn has_told(feed: &Feed, id: &MessageId) -> bool {
    let is_it =
        |event: &RunEvent| matches!(event, RunEvent::Session(SessionEvent::Message(message)) if message.id == *id);
    feed.look(|told| told.iter().any(is_it))
}
