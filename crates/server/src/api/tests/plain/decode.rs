//! Decodes a request into a [`PageRequest`].

use std::collections::BTreeMap;

use handback_core::id::{CallId, MessageId, PermissionId, SessionId};
use handback_core::sessions::{PageRequest, Said};
use handback_core::store::{Answer, PartBody, Reply, Span, ToolResult};
use serde::Deserialize;

use crate::api::conversation::{EarlierMessages, PageInput, page_tools};
use crate::app::App;
use crate::body::{Payload, parse};
use crate::problem::Problem;

/// The body of a request.
#[derive(Deserialize)]
#[serde(default)]
struct Talk {
    chat: String,
    id: Option<String>,
    say: Option<String>,
    /// Names of the page's own tools.
    tools: Vec<String>,
    /// The results of calls of these tools, by the id of the call.
    results: BTreeMap<String, String>,
    /// The asks that the user allows.
    allow: Vec<String>,
}

impl Default for Talk {
    fn default() -> Self {
        let (tools, results, allow) = (Vec::new(), BTreeMap::new(), Vec::new());
        Self { chat: String::new(), id: None, say: None, tools, results, allow }
    }
}

pub(super) async fn input(app: &App, payload: &Payload) -> Result<PageInput, Problem> {
    let talk: Talk = payload.read(app, parse).await?;
    let mut page = PageRequest { has_new_results: true, ..PageRequest::default() };
    page.needs.page_tools =
        page_tools(app.hub(), talk.tools.into_iter().map(|name| (name, String::new(), None))).await?;
    if let Some(text) = talk.say {
        let now = app.hub().clock().time();
        let parts = vec![PartBody::Text { text, span: Span { start: now, end: Some(now) } }];
        page.said.push(Said { message: talk.id.as_deref().map(MessageId::parse).transpose()?, parts });
    }
    for (call, output) in talk.results {
        let result = ToolResult::Completed { title: String::new(), output, metadata: None, attachments: Vec::new() };
        page.ended.insert(CallId::parse(&call)?);
        page.results.push((CallId::parse(&call)?, result));
    }
    for ask in talk.allow {
        page.answers.push((PermissionId::parse(&ask)?, Answer { reply: Reply::Once, input: None, message: None }));
    }
    // This protocol sends nothing but what is new.
    let history = EarlierMessages { first: None, is_empty: true, bytes: 0, read: Box::new(|_| Ok(Vec::new())) };
    Ok(PageInput { session: SessionId::parse(&talk.chat)?, history, request: page })
}
