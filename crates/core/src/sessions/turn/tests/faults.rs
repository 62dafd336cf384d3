//! Stores that are slow or fail, panics of others, and things that happen at the same moment.

use std::sync::atomic::{AtomicBool, Ordering};

use super::events::until_idle;
use super::*;
use crate::store::{
    Begun, CallFilter, Ended, FinishedCall, JournaledCall, Most, Page, SessionFilter, SessionPlace, StorageUsed,
    StoreError, StoreFuture, weight,
};
use crate::store::{StoredClient, StoredTool};

/// Does what it is told to: to take a second for each write and for reading a session, or to fail.
#[derive(Default)]
struct OddStore {
    kept: MemoryStore,
    is_slow: AtomicBool,
    fails: Fails,
}

#[derive(Default)]
struct Fails {
    begin: AtomicBool,
    finish: AtomicBool,
    read_session: AtomicBool,
    save_message: AtomicBool,
}

impl OddStore {
    fn slowly<T: Send + 'static>(&self, fails: &AtomicBool, inner: impl FnOnce() -> StoreFuture<T>) -> StoreFuture<T> {
        let is_slow = self.is_slow.load(Ordering::Relaxed);
        let inner = (!fails.load(Ordering::Relaxed)).then(inner);
        Box::pin(async move {
            if is_slow {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            match inner {
                Some(inner) => inner.await,
                None => Err(StoreError::Failed("/secret/path: full".into())),
            }
        })
    }
}

impl CallStore for OddStore {
    fn begin(&self, call: &JournaledCall, if_full: IfFull) -> StoreFuture<Begun> {
        self.slowly(&self.fails.begin, || self.kept.begin(call, if_full))
    }

    fn change(&self, call: &JournaledCall, if_full: IfFull) -> StoreFuture<()> {
        self.slowly(&self.fails.begin, || self.kept.change(call, if_full))
    }

    fn open_calls(&self) -> StoreFuture<Vec<JournaledCall>> {
        self.kept.open_calls()
    }

    fn save_client(&self, client: StoredClient, tools: Vec<(ToolName, Option<StoredTool>)>) -> StoreFuture<()> {
        self.kept.save_client(client, tools)
    }

    fn clients(&self) -> StoreFuture<Vec<(StoredClient, Vec<StoredTool>)>> {
        self.kept.clients()
    }

    fn is_lasting(&self) -> bool {
        self.kept.is_lasting()
    }

    fn finish(&self, call: &Arc<FinishedCall>, if_full: IfFull) -> StoreFuture<Ended> {
        self.slowly(&self.fails.finish, || self.kept.finish(call, if_full))
    }

    fn keep_late(&self, request: &RequestId, late: Outcome) -> StoreFuture<bool> {
        self.kept.keep_late(request, late)
    }

    fn finished(&self, request: &RequestId) -> StoreFuture<Option<Arc<FinishedCall>>> {
        self.kept.finished(request)
    }

    fn list_finished(
        &self,
        filter: &CallFilter,
        before: Option<u64>,
        most: Most,
    ) -> StoreFuture<Page<(u64, Arc<FinishedCall>)>> {
        self.kept.list_finished(filter, before, most)
    }
}

impl SessionStore for OddStore {
    fn save_session(&self, session: &Arc<Session>, if_full: IfFull) -> StoreFuture<()> {
        self.kept.save_session(session, if_full)
    }

    fn session(&self, session: &SessionId) -> StoreFuture<Option<Arc<Session>>> {
        self.slowly(&self.fails.read_session, || self.kept.session(session))
    }

    fn list_sessions(
        &self,
        filter: &SessionFilter,
        after: Option<&SessionPlace>,
        most: Most,
    ) -> StoreFuture<Page<Arc<Session>>> {
        self.kept.list_sessions(filter, after, most)
    }

    fn delete_session(&self, session: &SessionId) -> StoreFuture<bool> {
        self.kept.delete_session(session)
    }

    fn save_messages(&self, messages: Vec<Arc<Message>>, if_full: IfFull) -> StoreFuture<()> {
        self.slowly(&self.fails.save_message, || self.kept.save_messages(messages, if_full))
    }

    fn messages(&self, session: &SessionId) -> StoreFuture<Vec<Arc<Message>>> {
        self.kept.messages(session)
    }

    fn messages_after(
        &self,
        session: &SessionId,
        after: Option<&MessageId>,
        most: Most,
    ) -> StoreFuture<Option<Page<Arc<Message>>>> {
        self.kept.messages_after(session, after, most)
    }

    fn newest_messages(
        &self,
        session: &SessionId,
        before: Option<&MessageId>,
        most: usize,
    ) -> StoreFuture<Option<Vec<MessageId>>> {
        self.kept.newest_messages(session, before, most)
    }

    fn replace_from(&self, message: &Arc<Message>) -> StoreFuture<()> {
        self.kept.replace_from(message)
    }

    fn keeps_all(&self) -> bool {
        self.kept.keeps_all()
    }

    fn usage(&self, client: Option<&ClientId>) -> StoreFuture<StorageUsed> {
        self.kept.usage(client)
    }

    fn open_turns(&self) -> StoreFuture<Vec<Arc<Message>>> {
        self.kept.open_turns()
    }
}

fn odd_world(steps: Vec<Vec<Said>>, permission: Permission) -> (World, Arc<OddStore>) {
    let store = Arc::new(OddStore::default());
    (World::on(store.clone(), steps, With { permission, ..With::default() }), store)
}

fn set(switch: &AtomicBool, to: bool) {
    switch.store(to, Ordering::Relaxed);
}

fn hang() -> Vec<Said> {
    vec![Said::Hang(Arc::new(Mutex::new(None)))]
}

async fn until_shown(world: &World) {
    while world.shown().is_empty() {
        tokio::task::yield_now().await;
    }
}

#[expect(clippy::disallowed_methods, reason = "the test awaits it")]
fn close(world: &World, patience: Duration) -> tokio::task::JoinHandle<()> {
    let sessions = world.sessions.clone();
    tokio::spawn(async move { sessions.close(patience).await })
}

#[tokio::test(start_paused = true)]
async fn a_session_that_is_deleted_while_the_server_stops_is_not_waited_for() {
    for patience in [Duration::from_millis(1), Duration::from_secs(10)] {
        let (world, store) = odd_world(vec![hang()], Permission::Allow);
        let session = world.session().await;
        let _prompted = world.say(&session, "go").await.unwrap();
        until_shown(&world).await;
        set(&store.is_slow, true);
        let before = tokio::time::Instant::now();
        let closing = close(&world, patience);
        tokio::time::sleep(Duration::from_millis(500)).await;
        world.sessions.delete(&session).await.unwrap();
        tokio::time::timeout(Duration::from_secs(3_600), closing).await.expect("it stops").unwrap();
        assert!(before.elapsed() < Duration::from_secs(3), "{:?}", before.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_that_is_deleted_between_two_prompts_does_not_come_back() {
    let (world, store) = odd_world(vec![], Permission::Allow);
    let session = world.session().await;
    set(&store.is_slow, true);
    // The first reads the session when it is deleted; the second came before that, and is kept after it.
    let one = world.say(&session, "one").await.unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(world.sessions.delete(&session).await.unwrap());
    let two = world.say(&session, "two").await.unwrap();
    assert!(one.answer.unwrap().await.is_err(), "there is no answer in a session that is gone");
    assert!(two.answer.unwrap().await.is_err());
    assert!(matches!(world.sessions.get(&session.id).await, Err(SessionError::Unknown(_))));
    assert!(!world.sessions.is_busy(&session.id));
}

#[tokio::test(start_paused = true)]
async fn the_calls_of_a_session_that_is_deleted_go_with_it() {
    let (world, _store) = odd_world(vec![calls(&[("client_tab_a", "{}")])], Permission::Allow);
    let session = world.session().await;
    let mut connection = world.connect();
    let _prompted = world.say(&session, "go").await.unwrap();
    let (request, ..) = offered(&mut connection).await;
    world.sessions.delete(&session).await.unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(world.hub().finished(&request).await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_session_is_deleted_whole_although_whoever_deletes_it_has_gone() {
    let (world, store) = odd_world(vec![calls(&[("client_tab_a", "{}")])], Permission::Allow);
    let session = world.session().await;
    let mut connection = world.connect();
    let _prompted = world.say(&session, "go").await.unwrap();
    let (request, ..) = offered(&mut connection).await;
    let mut events = world.hub().subscribe(Topic::Everything);
    set(&store.is_slow, true);
    let deleting = world.sessions.delete(&session);
    assert!(tokio::time::timeout(Duration::from_millis(500), deleting).await.is_err());
    let is_deleted = |event: &Event| matches!(event, Event::Session(_, SessionEvent::Deleted));
    while !is_deleted(&events.next().await.unwrap().event) {}
    assert!(world.hub().finished(&request).await.unwrap().is_none());
}

/// Two answers that hold for as long as the session lives, while no turn is under way.
#[tokio::test(start_paused = true)]
async fn of_two_that_are_always_allowed_at_once_none_is_lost() {
    let (world, store) = odd_world(vec![], Permission::Allow);
    let session = world.session().await;
    set(&store.is_slow, true);
    let always = |tool: &'static str| {
        let (sessions, id) = (world.sessions.clone(), session.id.clone());
        async move { sessions.approve(&id, tool).await.unwrap() }
    };
    tokio::join!(always("a"), always("b"));
    let kept = store.kept.session(&session.id).await.unwrap().unwrap();
    assert_eq!(kept.approved.iter().collect::<Vec<_>>(), ["a", "b"]);
    // One that is deleted meanwhile does not come back.
    let deleting = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        world.sessions.delete(&session).await.unwrap()
    };
    tokio::join!(always("c"), deleting);
    assert!(store.kept.session(&session.id).await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_prompt_that_cannot_be_kept_leaves_no_trace_and_the_session_goes_idle() {
    let (world, store) = odd_world(vec![calls(&[("client_tab_a", "{}")]), text("done")], Permission::Allow);
    let session = world.session().await;
    let mut connection = world.connect();
    let mut listener = world.hub().subscribe(Topic::Everything);
    let prompted = world.say(&session, "go").await.unwrap();
    let (request, ..) = offered(&mut connection).await;
    set(&store.fails.save_message, true);
    assert!(matches!(world.say(&session, "next").await, Err(SessionError::Store(_))));
    set(&store.fails.save_message, false);
    world.complete(&request, "ok").await;
    prompted.answer.unwrap().await.unwrap();
    until_idle(&mut listener).await;
    assert_eq!(history(&world, &session).await.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_prompt_is_kept_and_told_although_whoever_prompted_has_gone() {
    let (world, store) = odd_world(vec![text("done")], Permission::Allow);
    let session = world.session().await;
    let mut listener = world.hub().subscribe(Topic::Everything);
    set(&store.is_slow, true);
    let gone = tokio::time::timeout(Duration::from_millis(500), world.say(&session, "go")).await;
    assert!(gone.is_err());
    let told = until_idle(&mut listener).await;
    assert_eq!(told[..2], ["user".to_owned(), "said text go".to_owned()], "{told:?}");
    assert_eq!(history(&world, &session).await[1], ["start", "text done", "finish stop"]);
}

#[tokio::test(start_paused = true)]
async fn a_prompt_that_cannot_be_kept_has_no_turn_although_whoever_prompted_has_gone() {
    let (world, store) = odd_world(vec![text("done")], Permission::Allow);
    let session = world.session().await;
    set(&store.is_slow, true);
    set(&store.fails.save_message, true);
    let gone = tokio::time::timeout(Duration::from_millis(500), world.say(&session, "go")).await;
    assert!(gone.is_err());
    set(&store.fails.save_message, false);
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(history(&world, &session).await, [[""; 0]; 0]);
    assert!(world.shown().is_empty() && !world.sessions.is_busy(&session.id));
}

#[tokio::test(start_paused = true)]
async fn a_step_that_cannot_be_kept_ends_the_turn_and_is_complete_all_the_same() {
    let (world, store) = odd_world(vec![calls(&[("client_tab_a", "{}")]), text("done")], Permission::Allow);
    let session = world.session().await;
    let mut connection = world.connect();
    let prompted = world.say(&session, "go").await.unwrap();
    let (request, ..) = offered(&mut connection).await;
    set(&store.fails.save_message, true);
    set(&store.is_slow, true);
    world.complete(&request, "ok").await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    set(&store.fails.save_message, false);
    let error = "error The turn could not be saved; see the server's log";
    let expected = ["start", "client_tab_a {} → ok", "finish tool-calls", error];
    assert_eq!(brief(&prompted.answer.unwrap().await.unwrap()), expected);
    assert_eq!(history(&world, &session).await[1..], [expected]);
    assert_eq!(world.sessions.recover().await.unwrap().begin(), 0, "nothing is left incomplete");
}

#[tokio::test(start_paused = true)]
async fn a_turn_whose_session_cannot_be_read_says_so_without_the_cause() {
    let (world, store) = odd_world(vec![text("one")], Permission::Allow);
    let session = world.session().await;
    let mut listener = world.hub().subscribe(Topic::Everything);
    set(&store.fails.read_session, true);
    let answer = world.answer(&session, "go").await;
    let error = "error The turn could not be saved; see the server's log";
    assert_eq!(brief(&answer), ["start", error]);
    assert_eq!(history(&world, &session).await[1], ["start", error]);
    let told = until_idle(&mut listener).await;
    assert!(told.contains(&"Busy".to_owned()) && told.iter().any(|told| told.starts_with("Failed")), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_cannot_be_journaled_denies_the_call_and_closes_the_ask() {
    let (world, store) = odd_world(vec![calls(&[("client_tab_a", "{}")]), text("done")], Permission::Ask);
    let session = world.session().await;
    let mut listener = world.hub().subscribe(Topic::Everything);
    let prompted = world.say(&session, "go").await.unwrap();
    let asks = world.until_asked(1).await;
    set(&store.fails.begin, true);
    let answered = world.reply(&asks[0], Reply::Once, None).await;
    assert!(matches!(answered, Err(NotAnswered::Store(_))), "{answered:?}");
    prompted.answer.unwrap().await.unwrap();
    let told = until_idle(&mut listener).await;
    assert!(told.contains(&"answered Reject".to_owned()), "{told:?}");
    let reason = "The call could not be recorded by the server and was not made";
    assert_eq!(world.shown()[1]["results"], json!([reason]));
}

#[tokio::test(start_paused = true)]
async fn always_holds_although_whoever_answered_has_gone() {
    let (world, store) = odd_world(vec![calls(&[("client_tab_a", "{}")]), text("done")], Permission::Ask);
    let session = world.session().await;
    let mut connection = world.connect();
    let prompted = world.say(&session, "go").await.unwrap();
    let asks = world.until_asked(1).await;
    set(&store.is_slow, true);
    let gone = tokio::time::timeout(Duration::from_millis(500), world.reply(&asks[0], Reply::Always, None)).await;
    assert!(gone.is_err());
    let (request, ..) = offered(&mut connection).await;
    world.complete(&request, "ok").await;
    prompted.answer.unwrap().await.unwrap();
    let approved = world.sessions.get(&session.id).await.unwrap().approved.clone();
    assert_eq!(approved.into_iter().collect::<Vec<_>>(), ["client_tab_a"]);
}

#[tokio::test(start_paused = true)]
async fn a_result_that_could_not_be_journaled_is_journaled_when_it_comes_again() {
    let (world, store) = odd_world(vec![calls(&[("client_tab_a", "{}")]), text("done")], Permission::Allow);
    let session = world.session().await;
    let mut connection = world.connect();
    let _prompted = world.say(&session, "go").await.unwrap();
    let (request, ..) = offered(&mut connection).await;
    set(&store.fails.finish, true);
    let result = || Outcome::Success(Success { output: "x".into(), ..Success::default() });
    assert!(world.hub().complete(&request, &Actor::Trusted, result()).await.is_err());
    assert!(world.hub().complete(&request, &Actor::Trusted, result()).await.is_err(), "it still is not");
    set(&store.fails.finish, false);
    let again = world.hub().complete(&request, &Actor::Trusted, result()).await.unwrap();
    assert_eq!(again, crate::calls::Taken::Again);
    assert!(world.hub().finished(&request).await.unwrap().is_some());
}

/// Panics before there is anything to wait for.
struct Panics;

impl Hook for Panics {
    fn before<'a>(&'a self, _call: HookedCall<'a>) -> BoxFuture<'a, Before> {
        panic!("unlucky")
    }
}

impl Model for Panics {
    fn stream(&self, _request: ModelRequest<'_>) -> ModelStream {
        panic!("unlucky")
    }
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_panics_at_once_fails_its_call_alone() {
    let with = With { hooks: vec![Arc::new(Panics)], ..With::default() };
    let world = World::with(vec![calls(&[("client_tab_a", "{}")]), text("done")], with);
    let session = world.session().await;
    assert_eq!(brief(&*world.answer(&session, "go").await)[1], "text done");
    assert_eq!(world.shown()[1]["results"], json!(["The tool failed inside the server; see its log"]));
}

#[tokio::test(start_paused = true)]
async fn a_model_that_panics_ends_its_turn_alone() {
    let with = With { models: vec![("panics", Arc::new(Panics))], ..With::default() };
    let world = World::with(vec![text("still here")], with);
    let session = world.session().await;
    let mut listener = world.hub().subscribe(Topic::Everything);
    let bad = Prompt { needs: with_model("panics/x"), ..prompt("go") };
    let answer = world.sessions.prompt(&session, bad).await.unwrap().answer.unwrap().await.unwrap();
    assert_eq!(brief(&answer), ["start", "error The turn failed inside the server; see its log"]);
    until_idle(&mut listener).await;
    assert_eq!(brief(&*world.answer(&session, "and now?").await)[1], "text still here");
}

#[test]
fn all_that_a_message_holds_is_weighed() {
    let mut message = assistant_shell(MessageId::parse("x").unwrap());
    let Role::User(said) = &mut message.role else { panic!("it is a user's") };
    said.needs.system = Some("x".repeat(1 << 20));
    said.needs.switches.insert("y".repeat(1 << 20), true);
    let file =
        crate::store::Attachment { mime: "z".repeat(1 << 20), filename: Some("z".repeat(1 << 20)), url: "u".into() };
    message.parts.push(Arc::new(Part { id: crate::id::PartId::parse("p").unwrap(), body: PartBody::File(file) }));
    assert!(weight::of_message(&message) > 4 << 20);
}
