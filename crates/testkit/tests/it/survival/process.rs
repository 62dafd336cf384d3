//! A process with sessions over a store that outlives it, a model that does what it is told, and the tools of a client.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use handback_core::Hub;
use handback_core::clock::Clock;
use handback_core::id::ToolName;
use handback_core::limits::Limits;
use handback_core::schema::Schema;
use handback_core::sessions::{
    Agent, Agents, Model, ModelEvent, ModelRequest, ModelStream, Models, Prompt, Sessions, Setup,
};
use handback_core::store::{
    Effect, Message, ModelRef, Outcome, PartBody, Span, StopReason, Success, ToolPart, ToolSpec, TurnNeeds,
};
use handback_core::tools::{Permission, Policy, ToolPattern};
use handback_testkit::mortal::Mortal;
use tokio_util::task::TaskTracker;

/// How long the model takes for each piece of what it says.
const PACE: Duration = Duration::from_millis(5);

/// Makes the calls that the user's message names: the tools of a step with `+` between them, and steps with a space. Then
/// it says what came of all of them. Asked to be [`DEADLY`], it ends the process.
struct Script(Mortal);

/// What ends the process when the model is asked.
pub(super) const DEADLY: &str = "deadly";

impl Model for Script {
    fn stream(&self, request: ModelRequest<'_>) -> ModelStream {
        let place = request.messages.iter().rposition(|message| message.answers().is_none()).unwrap();
        let (text, steps) = (text_of(&request.messages[place]), &request.messages[place + 1..]);
        if text == DEADLY {
            let store = self.0.clone();
            return Box::pin(stream::once(async move {
                tokio::time::sleep(PACE).await;
                store.die();
                std::future::pending().await
            }));
        }
        let said = match text.split(' ').nth(steps.len()) {
            Some(step) => {
                let calls = step.split('+').enumerate().flat_map(|(index, tool)| {
                    let name = format!("client_desk_{tool}");
                    let delta = format!(r#"{{"n":{}}}"#, 10 * steps.len() + index);
                    [
                        ModelEvent::CallStarted { index, id: String::new(), name },
                        ModelEvent::Arguments { index, delta },
                        ModelEvent::CallEnded { index, kept: None },
                    ]
                });
                calls.chain([ModelEvent::Stop(StopReason::ToolCalls)]).collect::<Vec<_>>()
            }
            None => {
                let results: Vec<String> = steps.iter().flat_map(|step| tools_of(step)).map(result_of).collect();
                vec![ModelEvent::Text(results.join(" and ")), ModelEvent::Stop(StopReason::Stop)]
            }
        };
        Box::pin(stream::iter(said).then(async |event| {
            tokio::time::sleep(PACE).await;
            Ok(event)
        }))
    }
}

/// All that a message says.
pub(super) fn text_of(message: &Message) -> String {
    let text = |body: &PartBody| if let PartBody::Text { text, .. } = body { text.clone() } else { String::new() };
    message.parts.iter().map(|part| text(&part.body)).collect()
}

/// The calls of a message.
pub(super) fn tools_of(message: &Message) -> impl Iterator<Item = &ToolPart> {
    message.parts.iter().filter_map(|part| if let PartBody::Tool(tool) = &part.body { Some(tool) } else { None })
}

/// What the model is told of a call.
pub(super) fn result_of(tool: &ToolPart) -> String {
    tool.result_for_model(9_999).0
}

/// The tools of the client `desk`, by what a second run would do. Each has as much time as that.
pub(super) fn tools(timeout: Duration) -> Vec<ToolSpec> {
    let spec = |(name, effect): (&str, Effect)| ToolSpec {
        name: ToolName::parse(name).unwrap(),
        description: String::new(),
        schema: Arc::new(Schema::any_object()),
        timeout: Some(timeout),
        effect,
        version: None,
    };
    let write = |name| (name, Effect::Write);
    [("read", Effect::Read), write("write"), write("asked"), write("refused"), write("denied")].map(spec).into()
}

/// A process. The tools `asked` and `refused` have to be allowed, and `denied` is not.
pub(super) fn start(store: &Mortal, clock: Clock) -> Sessions {
    let hub = Hub::new(Limits::default(), clock, Arc::new(store.clone()), TaskTracker::new());
    let mut models = Models::default();
    models.insert("test", Arc::new(Script(store.clone())));
    let rule = |(pattern, permission)| (ToolPattern::parse(pattern).unwrap(), permission);
    let rules =
        [("*_asked", Permission::Ask), ("*_refused", Permission::Ask), ("*_denied", Permission::Deny)].map(rule);
    let policy = Policy { client_tools: Permission::Allow, tools: rules.into() };
    let agent = Agent { policy, ..Agent::default() };
    let setup = Setup {
        models,
        default_model: ModelRef::parse("test/script").unwrap(),
        agents: Agents::from_iter([("default".into(), agent)]),
        tools: Vec::new(),
        frontend_tools: Vec::new(),
        hooks: Vec::new(),
    };
    Sessions::new(hub, Arc::new(store.clone()), setup)
}

/// Takes up what the process before has left.
pub(super) async fn recover(sessions: &Sessions) {
    sessions.hub().recover().await.unwrap();
    sessions.recover().await.unwrap().begin();
}

/// Stops a process, which waits for nothing.
pub(super) async fn stop(sessions: &Sessions) {
    sessions.close(Duration::ZERO).await;
    sessions.hub().close(Duration::ZERO).await;
}

pub(super) fn prompt(clock: &Clock, text: &str) -> Prompt {
    let now = clock.time();
    let body = PartBody::Text { text: text.to_owned(), span: Span { start: now, end: Some(now) } };
    Prompt { message: None, parts: vec![body], agent: None, wants_reply: true, needs: TurnNeeds::default() }
}

pub(super) fn success(output: &str) -> Outcome {
    Outcome::Success(Success { output: output.to_owned(), ..Success::default() })
}
