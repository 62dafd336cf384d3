//! A conversation: a session, and how things are said in it.

use std::collections::VecDeque;

use handback_client::{Api, ClientTools};
use handback_wire::session::{CreateSession, MessageWithParts, Model, Prompt, Session, Tokens};
use tokio::time::Instant;

use super::layout::{Ink, usage};
use super::lines::Lines;
use super::pieces::Pieces;
use super::screen::Screen;
use super::turn::{Approval, Turn};
use crate::failure::Interrupted;
use crate::signals::{Signals, Stop};

/// What a session is made with, and what each prompt in it says.
#[derive(Debug, Clone, Default)]
pub(super) struct Setting {
    /// The client whose tools the model may call.
    pub(super) client: Option<String>,
    pub(super) model: Option<Model>,
    pub(super) agent: Option<String>,
}

/// What became of something that was said.
pub(super) enum Said {
    /// It was answered; the last message of the answer, which may say that the turn ended early.
    Answered(Box<MessageWithParts>),
    /// The user stopped the turn, or whoever stops processes did.
    Stopped(Stop),
}

/// A session, and those who talk in it.
pub(super) struct Conversation {
    pub(super) api: Api,
    /// The tools that are offered here.
    tools: Option<ClientTools>,
    pub(super) setting: Setting,
    pub(super) session: Session,
    /// Whether something is in the session, or was before.
    is_used: bool,
    pub(super) screen: Screen,
    pub(super) lines: Lines,
    pub(super) approval: Approval,
}

impl Conversation {
    /// A conversation in a session, or in a new one.
    pub(super) async fn start(
        api: Api,
        tools: Option<ClientTools>,
        setting: Setting,
        resumed: Option<Session>,
        screen: Screen,
        approval: Approval,
    ) -> anyhow::Result<Self> {
        let is_used = resumed.is_some();
        let session = match resumed {
            Some(session) => session,
            None => create(&api, &setting).await?,
        };
        Ok(Self { api, tools, setting, session, is_used, screen, lines: Lines::default(), approval })
    }

    /// Goes on in a new session.
    pub(super) async fn start_over(&mut self) -> anyhow::Result<()> {
        let session = create(&self.api, &self.setting).await?;
        self.leave().await;
        self.session = session;
        self.is_used = false;
        Ok(())
    }

    /// Takes back a session in which nothing was said; says whether there is one to come back to.
    pub(super) async fn leave(&mut self) -> bool {
        if !self.is_used {
            // It would do no harm if it stayed.
            let _ = self.api.delete_session(&self.session.id).await;
        }
        self.is_used
    }

    /// Says something and shows the answer. Ctrl-C stops the turn.
    pub(super) async fn say(&mut self, text: &str, signals: &mut Signals) -> anyhow::Result<Said> {
        let prompt = Prompt {
            client_id: self.setting.client.clone(),
            model: self.setting.model.clone(),
            agent: self.setting.agent.clone(),
            ..Prompt::from(text)
        };
        self.is_used = true;
        let events = match &self.tools {
            Some(tools) => tools.turn(&self.session.id, prompt),
            None => self.api.turn(&self.session.id, prompt),
        };
        let client = self.session.client_id.as_deref().or(self.setting.client.as_deref());
        let mut turn = Turn {
            api: &self.api,
            session: &self.session.id,
            screen: &mut self.screen,
            lines: &mut self.lines,
            approval: self.approval,
            pieces: Pieces::new(client),
            events,
            waits_since: Instant::now(),
            questions: VecDeque::new(),
            tokens: Tokens::default(),
        };
        let ended = tokio::select! {
            ended = turn.run() => Ok(ended),
            stop = signals.next() => Err(stop),
        };
        let said = match ended {
            Ok(answer) => {
                turn.end()?;
                Said::Answered(Box::new(answer?))
            }
            Err(stop) => {
                tokio::select! {
                    aborted = turn.abort() => aborted?,
                    _ = signals.next() => return Err(Interrupted("stopped at once").into()),
                }
                Said::Stopped(stop)
            }
        };
        let tokens = turn.tokens;
        if let Said::Answered(answer) = &said
            && answer.info.finish.as_deref() == Some("length")
        {
            self.screen.line(Ink::Yellow, "The answer is cut off: the model may not say more at once.")?;
        }
        if let Some(usage) = usage(tokens) {
            self.screen.line(Ink::Dim, &usage)?;
        }
        Ok(said)
    }
}

/// Why a turn ended early, for people; `None` if it did not.
pub(super) fn failure(answer: &MessageWithParts) -> Option<String> {
    answer.info.error.as_ref().map(|error| error.reason().to_owned())
}

async fn create(api: &Api, setting: &Setting) -> anyhow::Result<Session> {
    let Setting { client, model, agent } = setting.clone();
    Ok(api.create_session(&CreateSession { client_id: client, model, agent, ..CreateSession::default() }).await?)
}
