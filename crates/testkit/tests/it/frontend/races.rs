//! Many acks for one call at the same moment, each over a connection of its own.

use handback_testkit::{Answer, RawSocket, Scratch};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{World, ignored, refused, success, taken};

/// Sends all acks at once: every connection is open and has said all but its last byte before the first says that.
async fn at_once(world: &World, acks: Vec<Value>) -> Vec<Answer> {
    let mut sockets = Vec::new();
    for ack in &acks {
        let body = ack.to_string();
        let request =
            format!("POST /api/tools/ack HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        let mut socket = RawSocket::open(world.server.address).await;
        socket.send(&request[..request.len() - 1]).await.unwrap();
        sockets.push(socket);
    }
    let mut answers = JoinSet::new();
    for (place, mut socket) in sockets.into_iter().enumerate() {
        answers.spawn(async move {
            socket.send("}").await.unwrap();
            (place, socket.answer().await.1)
        });
    }
    let mut answers = answers.join_all().await;
    answers.sort_by_key(|(place, _)| *place);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

fn count(answers: &[Answer], status: u16, body: &Value) -> usize {
    answers.iter().filter(|answer| (answer.status, &answer.body) == (status, body)).count()
}

/// How often a call is in the journal.
async fn journaled(world: &World, call: &str) -> usize {
    let listed = world.server.get("/client-tools/calls?limit=1000").await.body;
    listed.as_array().unwrap().iter().filter(|listed| listed["requestID"] == call).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_different_acks_at_once_one_counts_and_the_model_gets_that() {
    let scratch = Scratch::new();
    let kept = World::with(|config| config.data = Some(scratch.path().to_owned())).await;
    for (world, many) in [(World::start().await, 20), (World::start().await, 200), (kept, 20)] {
        let (mut stream, call) = world.held("chat").await;
        let answers = at_once(&world, (0..many).map(|number| success(&call, json!({ "n": number }))).collect()).await;
        assert_eq!(count(&answers, 200, &taken()), 1, "{answers:?}");
        assert_eq!(count(&answers, 409, &refused("conflict")), many - 1, "{answers:?}");
        let winner = answers.iter().position(|answer| answer.status == 200).unwrap();
        let told = format!(r#"{{"status":"success","output":{{"n":{winner}}}}}"#);
        assert_eq!(world.results(&mut stream).await, [told]);
        assert_eq!(journaled(&world, &call).await, 1);
        assert_eq!(stream.seen().iter().filter(|chunk| chunk["type"] == "tool-output-available").count(), 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_the_same_ack_many_times_at_once_one_counts_and_the_others_are_ignored() {
    let scratch = Scratch::new();
    let kept = World::with(|config| config.data = Some(scratch.path().to_owned())).await;
    for world in [World::start().await, kept] {
        let (mut stream, call) = world.held("chat").await;
        let answers = at_once(&world, vec![success(&call, json!(7)); 20]).await;
        assert_eq!(count(&answers, 200, &taken()), 1, "{answers:?}");
        assert_eq!(count(&answers, 200, &ignored()), 19, "{answers:?}");
        assert_eq!(world.results(&mut stream).await, [r#"{"status":"success","output":7}"#]);
        assert_eq!(journaled(&world, &call).await, 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_ack_and_an_abort_at_once_agree_on_what_happened() {
    let world = World::start().await;
    for round in 0..20 {
        let chat = format!("chat{round}");
        let (mut stream, call) = world.held(&chat).await;
        let ack = success(&call, json!(1));
        let abort = format!("/api/chat/{chat}/abort");
        let (acked, aborted) = tokio::join!(world.server.ack(&ack), world.server.post(&abort, json!({})));
        aborted.must_be(200, &json!({ "ok": true }));
        let outcome = world.server.outcome(&call).await;
        match acked.status {
            200 => assert_eq!(outcome["status"], "success", "{outcome}"),
            _ => {
                acked.must_be(410, &refused("expired"));
                assert_eq!(outcome["status"], "cancelled", "{outcome}");
            }
        }
        let lines = stream.lines().await;
        assert_eq!(lines.last().unwrap(), "abort {\"reason\":\"The turn was aborted\"}");
    }
}
