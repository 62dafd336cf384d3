//! What handlers do, and the record of their runs.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use handback_client::{Effect, Invocation, Tool, ToolError};
use serde_json::Value;

use super::plan::{answer, failure};

/// The record that all handlers of a test write to.
#[derive(Debug, Clone, Default)]
pub struct Runs(Arc<Mutex<HashMap<String, Vec<String>>>>);

impl Runs {
    /// The tools of a storm's client, which write to this record.
    pub fn tools(&self) -> [Tool; 3] {
        [("read", Effect::Read), ("idempotent", Effect::Idempotent), ("write", Effect::Write)].map(|(name, effect)| {
            let runs = self.clone();
            let handler = move |call: Invocation| {
                let runs = runs.clone();
                async move {
                    let Invocation { request, cancellation, .. } = call;
                    let ran = runs.run(&request.request_id, name, request.input.get(), cancellation.cancelled()).await;
                    ran.map_err(ToolError::new)
                }
            };
            Tool::new(name, "", handler).effect(effect)
        })
    }

    /// What the handler of a tool does with a call. `effect` is the tool's; `over` ends when the call is over before
    /// the handler is.
    ///
    /// # Errors
    /// The call asks for a failure.
    ///
    /// # Panics
    /// The input is not one of a storm.
    async fn run(
        &self,
        request: &str,
        effect: &str,
        input: &str,
        over: impl Future<Output = ()>,
    ) -> Result<String, String> {
        self.record(request, effect);
        let input: Value = serde_json::from_str(input).expect("the input of a storm's call");
        tokio::time::sleep(Duration::from_millis(input["work"].as_u64().unwrap())).await;
        match input["act"].as_str().unwrap() {
            "answer" => Ok(answer(request, input["word"].as_str().unwrap())),
            "fail" => Err(failure(request)),
            _ => {
                over.await;
                Err("the call was over".to_owned())
            }
        }
    }

    /// A handler begins to run.
    pub fn record(&self, request: &str, effect: &str) {
        self.0.lock().unwrap().entry(request.to_owned()).or_default().push(effect.to_owned());
    }

    /// How often anything was run.
    pub fn count(&self) -> usize {
        self.0.lock().unwrap().values().map(Vec::len).sum()
    }

    /// How often a call was run.
    pub(super) fn of(&self, request: &str) -> usize {
        self.0.lock().unwrap().get(request).map_or(0, Vec::len)
    }

    /// What is wrong with the record.
    pub(super) fn repeated_writes(&self) -> Vec<String> {
        let runs = self.0.lock().unwrap();
        let repeated =
            runs.iter().filter(|(_, effects)| effects.len() > 1 && effects.iter().any(|effect| effect == "write"));
        repeated.map(|(request, effects)| format!("{request} was run {} times: {effects:?}", effects.len())).collect()
    }
}
