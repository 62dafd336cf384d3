//! Each turn and each answer of a model is counted once, however it ends.

use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

use super::*;
use crate::metrics::MOST_VALUES;
use crate::store::Usage;

/// The counts with these names, as they are served.
fn counts(world: &World, names: &[&str]) -> Vec<String> {
    let (mut registry, mut text) = (Registry::default(), String::new());
    world.sessions.metrics().clone().register(&mut registry);
    encode(&mut text, &registry).unwrap();
    let is_wanted = |line: &&str| names.iter().any(|name| line.starts_with(&format!("{name}{{")));
    text.lines().filter(is_wanted).map(str::to_owned).collect()
}

/// Waits until the counts are these; fails after a second.
async fn until_counted(world: &World, names: &[&str], expected: &[&str]) {
    let until = tokio::time::Instant::now() + Duration::from_secs(1);
    while counts(world, names) != expected && tokio::time::Instant::now() < until {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(counts(world, names), expected);
}

fn used(input: u64, output: u64) -> Said {
    Said::Event(ModelEvent::Usage(Usage { input, output, ..Usage::default() }))
}

#[tokio::test(start_paused = true)]
async fn what_is_stopped_and_what_never_began_is_counted_with_the_tokens_that_it_cost() {
    let failing =
        vec![used(100, 10), Said::Error(TurnError::Provider { message: "no".into(), status: None, retryable: false })];
    let endless = vec![used(1_000, 1), Said::Hang(Arc::default())];
    let world = World::new(vec![[vec![used(10, 20)], text("yes")].concat(), failing, endless]);
    let session = world.session().await;
    world.answer(&session, "one").await;
    world.answer(&session, "two").await;
    let running = world.say(&session, "three").await.unwrap();
    let followed = TurnNeeds { is_followed: true, ..TurnNeeds::default() };
    let waiting = world.sessions.prompt(&session, Prompt { needs: followed, ..prompt("four") }).await.unwrap();
    while world.shown().len() < 3 {
        tokio::task::yield_now().await;
    }
    world.sessions.stop_turn(&session.id, &waiting.feed.unwrap());
    world.sessions.abort(&session.id).await.unwrap();
    running.answer.unwrap().await.unwrap();
    assert!(waiting.answer.unwrap().await.is_err());
    let turns = [
        r#"turns_total{outcome="aborted"} 2"#,
        r#"turns_total{outcome="provider"} 1"#,
        r#"turns_total{outcome="success"} 1"#,
    ];
    until_counted(&world, &["turns_total"], &turns).await;
    assert_eq!(
        counts(&world, &["steps_total", "tokens_total", "model_answer_seconds_count"]),
        [
            r#"steps_total{model="fake/one",outcome="aborted"} 1"#,
            r#"steps_total{model="fake/one",outcome="provider"} 1"#,
            r#"steps_total{model="fake/one",outcome="success"} 1"#,
            r#"tokens_total{model="fake/one",kind="input"} 1110"#,
            r#"tokens_total{model="fake/one",kind="output"} 31"#,
            r#"model_answer_seconds_count{model="fake/one"} 1"#,
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn models_that_do_not_answer_take_no_place_among_those_that_do() {
    let error =
        || Said::Error(TurnError::Provider { message: "no such model".into(), status: Some(404), retryable: false });
    let steps = (0..MOST_VALUES + 1).map(|_| vec![error()]).chain([text("here")]).collect();
    let world = World::new(steps);
    let session = world.session().await;
    for number in 0..MOST_VALUES + 2 {
        let said = Prompt { needs: with_model(&format!("fake/{number}")), ..prompt("go") };
        world.sessions.prompt(&session, said).await.unwrap().answer.unwrap().await.unwrap();
    }
    let last = format!(r#"steps_total{{model="fake/{}",outcome="success"}} 1"#, MOST_VALUES + 1);
    let others = format!(r#"steps_total{{model="other",outcome="provider"}} {}"#, MOST_VALUES + 1);
    assert_eq!(counts(&world, &["steps_total"]), [last, others]);
}

#[tokio::test(start_paused = true)]
async fn turns_of_a_session_that_is_deleted_are_counted() {
    let world = World::new(vec![vec![Said::Hang(Arc::default())]]);
    let session = world.session().await;
    let running = world.say(&session, "one").await.unwrap();
    let _waiting = world.say(&session, "two").await.unwrap();
    while world.shown().is_empty() {
        tokio::task::yield_now().await;
    }
    assert!(world.sessions.delete(&session).await.unwrap());
    running.answer.unwrap().await.unwrap();
    let turns = [r#"turns_total{outcome="aborted"} 1"#, r#"turns_total{outcome="deleted"} 1"#];
    until_counted(&world, &["turns_total"], &turns).await;
}
