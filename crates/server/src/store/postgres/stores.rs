//! The traits of stores: each method sends its statements through the writer, or over a connection for reads.

use std::sync::Arc;
use std::time::SystemTime;

use handback_core::cluster::{Load, NodeInfo, NodeStore};
use handback_core::id::{ClientId, MessageId, NodeId, RequestId, RunId, SessionId, ToolName};
use handback_core::store::{
    Begun, CallFilter, CallPage, CallStore, Ended, FinishedCall, IfFull, JournaledCall, Message, Most, Outcome, Page,
    RunStore, Session, SessionFilter, SessionPlace, SessionStore, StorageUsed, StoreFuture, StoredClient, StoredTool,
    ThreadRun, weight,
};

use super::calls::Written;
use super::operation::{Sent, work};
use super::{Postgres, SMALL, calls, clients, messages, nodes, runs, sessions, usage};
use crate::store::rank::Rank;

impl NodeStore for Postgres {
    fn join(&self, name: &str, again: Option<NodeId>) -> StoreFuture<NodeId> {
        let name = name.to_owned();
        self.lease(move |lane, _| Box::pin(nodes::join(lane, name.clone(), again)))
    }

    fn renew(&self, node: NodeId, load: Load) -> StoreFuture<Option<SystemTime>> {
        self.lease(move |lane, _| Box::pin(nodes::renew(lane, node, load)))
    }

    fn leave(&self, node: NodeId) -> StoreFuture<()> {
        self.lease(move |lane, _| Box::pin(nodes::leave(lane, node)))
    }

    fn nodes(&self) -> StoreFuture<Vec<NodeInfo>> {
        self.lease(|lane, _| Box::pin(nodes::list(lane)))
    }
}

impl CallStore for Postgres {
    fn begin(&self, call: &JournaledCall, if_full: IfFull) -> StoreFuture<Begun> {
        let (head, call) = (call.head.clone(), call.clone());
        let request = head.request.clone();
        let (undo, _) = work(&self.database, move |lane, _| Box::pin(calls::withdraw(lane, request.clone())));
        let (session, bytes) = (Some(&head.session), weight::of_head(&head));
        let written = self.write(session, bytes, if_full.into(), Some(undo), move |lane, _| {
            Box::pin(calls::begin(lane, call.clone()))
        });
        let find = self.finder(&head.request);
        Box::pin(async move {
            Ok(match written.await? {
                Written::First => Begun::New,
                Written::Gone => Begun::Gone,
                Written::Over => find.await?.map_or(Begun::Gone, Begun::Before),
            })
        })
    }

    fn change(&self, call: &JournaledCall, if_full: IfFull) -> StoreFuture<()> {
        let (head, call) = (call.head.clone(), call.clone());
        self.write(Some(&head.session), weight::of_head(&head), if_full.into(), None, move |lane, _| {
            Box::pin(calls::change(lane, call.clone()))
        })
    }

    fn open_calls(&self) -> StoreFuture<Vec<JournaledCall>> {
        self.read(None, |lane, _| Box::pin(calls::open(lane)))
    }

    fn save_client(&self, client: StoredClient, tools: Vec<(ToolName, Option<StoredTool>)>) -> StoreFuture<()> {
        let bytes = |(_, tool): &(ToolName, Option<StoredTool>)| {
            SMALL + tool.as_ref().map_or(0, |tool| tool.schema.get().len() + tool.description.len())
        };
        let bytes = SMALL + tools.iter().map(bytes).sum::<usize>();
        self.write(None, bytes, Rank::Fails, None, move |lane, _| {
            Box::pin(clients::save(lane, client.clone(), tools.clone()))
        })
    }

    fn clients(&self) -> StoreFuture<Vec<(StoredClient, Vec<StoredTool>)>> {
        self.read(None, |lane, _| Box::pin(clients::list(lane)))
    }

    fn is_lasting(&self) -> bool {
        true
    }

    fn finish(&self, call: &Arc<FinishedCall>, if_full: IfFull) -> StoreFuture<Ended> {
        let (session, bytes, end) = (&call.head.session, weight::of_call(call), call.clone());
        let written = self.write(Some(session), bytes, if_full.into(), None, move |lane, _| {
            Box::pin(calls::finish(lane, end.clone()))
        });
        let (find, call) = (self.finder(&call.head.request), call.clone());
        Box::pin(async move {
            Ok(match written.await? {
                Written::First => Ended::First,
                Written::Gone => Ended::Gone,
                Written::Over => find.await?.map_or(Ended::Gone, |before| Ended::after(before, &call)),
            })
        })
    }

    fn keep_late(&self, request: &RequestId, late: Outcome) -> StoreFuture<bool> {
        let request = request.clone();
        self.write(None, weight::of_outcome(&late), Rank::Fails, None, move |lane, _| {
            Box::pin(calls::keep_late(lane, request.clone(), late.clone()))
        })
    }

    fn finished(&self, request: &RequestId) -> StoreFuture<Option<Arc<FinishedCall>>> {
        let request = request.clone();
        self.read(None, move |lane, _| Box::pin(calls::finished(lane, request.clone())))
    }

    fn list_finished(&self, filter: &CallFilter, before: Option<u64>, most: Most) -> StoreFuture<CallPage> {
        let filter = filter.clone();
        self.read(None, move |lane, _| Box::pin(calls::list(lane, filter.clone(), before, most)))
    }
}

impl SessionStore for Postgres {
    fn save_session(&self, session: &Arc<Session>, if_full: IfFull) -> StoreFuture<()> {
        let (id, bytes, session) = (&session.id, weight::of_session(session), session.clone());
        self.write(Some(id), bytes, if_full.into(), None, move |lane, _| {
            Box::pin(sessions::save(lane, session.clone()))
        })
    }

    fn session(&self, session: &SessionId) -> StoreFuture<Option<Arc<Session>>> {
        let id = session.clone();
        self.read(Some(session), move |lane, _| Box::pin(sessions::find(lane, id.clone())))
    }

    fn list_sessions(
        &self,
        filter: &SessionFilter,
        after: Option<&SessionPlace>,
        most: Most,
    ) -> StoreFuture<Page<Arc<Session>>> {
        let (filter, after) = (filter.clone(), after.cloned());
        self.read(None, move |lane, _| Box::pin(sessions::list(lane, filter.clone(), after.clone(), most)))
    }

    fn delete_session(&self, session: &SessionId) -> StoreFuture<bool> {
        let id = session.clone();
        self.write(Some(session), SMALL, Rank::MakesRoom, None, move |lane, saved| {
            saved.forget_session(&id);
            Box::pin(sessions::delete(lane, id.clone()))
        })
    }

    fn save_messages(&self, messages: Vec<Arc<Message>>, if_full: IfFull) -> StoreFuture<()> {
        let session = messages.first().map(|message| message.session.clone());
        let bytes = messages.iter().map(|message| weight::of_message(message)).sum();
        self.write(session.as_ref(), bytes, if_full.into(), None, move |lane, saved| {
            let all: Vec<_> = messages.iter().map(|message| messages::save(lane, saved, message)).collect();
            together(all)
        })
    }

    fn messages(&self, session: &SessionId) -> StoreFuture<Vec<Arc<Message>>> {
        let id = session.clone();
        self.read(Some(session), move |lane, _| Box::pin(messages::list(lane, id.clone())))
    }

    fn messages_after(
        &self,
        session: &SessionId,
        after: Option<&MessageId>,
        most: Most,
    ) -> StoreFuture<Option<Page<Arc<Message>>>> {
        let (id, after) = (session.clone(), after.cloned());
        self.read(Some(session), move |lane, _| Box::pin(messages::list_after(lane, id.clone(), after.clone(), most)))
    }

    fn newest_messages(
        &self,
        session: &SessionId,
        before: Option<&MessageId>,
        most: usize,
    ) -> StoreFuture<Option<Vec<MessageId>>> {
        let (id, before) = (session.clone(), before.cloned());
        self.read(Some(session), move |lane, _| {
            Box::pin(messages::newest_before(lane, id.clone(), before.clone(), most))
        })
    }

    fn replace_from(&self, message: &Arc<Message>) -> StoreFuture<()> {
        let (session, bytes, message) = (&message.session, weight::of_message(message), message.clone());
        self.write(Some(session), bytes, Rank::Fails, None, move |lane, saved| {
            saved.forget_session(&message.session);
            let delete = messages::delete_from(lane, message.session.clone(), message.id.clone());
            together(vec![Box::pin(delete), messages::save(lane, saved, &message)])
        })
    }

    fn keeps_all(&self) -> bool {
        true
    }

    fn usage(&self, client: Option<&ClientId>) -> StoreFuture<StorageUsed> {
        let client = client.cloned();
        // Writes that have not ended do not count.
        let (work, reply) = work(&self.database, move |lane, _| Box::pin(usage::used(lane, client.clone())));
        let (readers, database) = (self.readers.clone(), self.database.clone());
        self.runtime.spawn(async move { readers.read(work, &database).await });
        self.wait(Ok(()), reply)
    }

    fn open_turns(&self) -> StoreFuture<Vec<Arc<Message>>> {
        self.read(None, |lane, _| Box::pin(messages::open(lane)))
    }
}

impl RunStore for Postgres {
    fn save_run(&self, run: &Arc<ThreadRun>, if_full: IfFull) -> StoreFuture<()> {
        let (session, bytes, run) = (&run.session, weight::of_run(run), run.clone());
        self.write(Some(session), bytes, if_full.into(), None, move |lane, _| Box::pin(runs::save(lane, run.clone())))
    }

    fn run(&self, session: &SessionId, run: &RunId) -> StoreFuture<Option<Arc<ThreadRun>>> {
        let (id, run) = (session.clone(), run.clone());
        self.read(Some(session), move |lane, _| Box::pin(runs::find(lane, id.clone(), run.clone())))
    }

    fn runs(&self, session: &SessionId) -> StoreFuture<Vec<Arc<ThreadRun>>> {
        let id = session.clone();
        self.read(Some(session), move |lane, _| Box::pin(runs::list(lane, id.clone())))
    }

    fn append_run_events(
        &self,
        session: &SessionId,
        run: &RunId,
        first: usize,
        events: Vec<Arc<str>>,
    ) -> StoreFuture<()> {
        let (id, run, bytes) = (session.clone(), run.clone(), SMALL + weight::of_events(&events));
        self.write(Some(session), bytes, Rank::Waits, None, move |lane, _| {
            Box::pin(runs::append_events(lane, id.clone(), run.clone(), first, events.clone()))
        })
    }

    fn run_events(&self, session: &SessionId, run: &RunId, from: usize) -> StoreFuture<Vec<Arc<str>>> {
        let (id, run) = (session.clone(), run.clone());
        self.read(Some(session), move |lane, _| Box::pin(runs::events(lane, id.clone(), run.clone(), from)))
    }

    fn unfinished_runs(&self) -> StoreFuture<Vec<Arc<ThreadRun>>> {
        self.read(None, |lane, _| Box::pin(runs::unfinished(lane)))
    }
}

/// Several statements that are sent in this order.
fn together(all: Vec<Sent<'_>>) -> Sent<'_> {
    Box::pin(async move {
        let mut sent: Vec<_> = all.into_iter().map(futures_util::future::maybe_done).collect();
        for statement in &mut sent {
            _ = futures_util::poll!(statement);
        }
        for mut statement in sent {
            (&mut statement).await;
            std::pin::Pin::new(&mut statement).take_output().unwrap_or(Ok(()))?;
        }
        Ok(())
    })
}
