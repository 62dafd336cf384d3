use super::*;
use crate::app::App;

/// Paths of every shape that errors have.
const PATHS: [&str; 8] = [
    "/",
    "/client-tools/execute",
    "/session/s/message",
    "/permission",
    "/api/chat",
    "/agui",
    "/ai/tools/ack",
    "/api/v1/x",
];

#[test]
fn every_503_of_every_api_says_when_to_come_back_and_nothing_else_does() {
    let problems: Vec<Problem> = vec![
        Problem::new(ErrorCode::Unavailable, "too many connections"),
        Refusal::Overloaded.into(),
        Refusal::ShuttingDown.into(),
        SessionError::ShuttingDown.into(),
        RegisterError::TooManyClients.into(),
        TooManyConnections.into(),
    ];
    for (problem, path) in problems.iter().flat_map(|problem| PATHS.map(|path| (problem, path))) {
        let response = problem.clone().into_response_as(App::routes().errors.at(path));
        let retry_after = response.headers().get(header::RETRY_AFTER).map(HeaderValue::as_bytes);
        assert_eq!((response.status().as_u16(), retry_after), (503, Some(b"1".as_slice())), "{problem:?} at {path}");
    }
    let others = [Problem::not_found("x"), Problem::interrupted(), Problem::new(ErrorCode::RateLimited, "x")];
    for (problem, path) in others.into_iter().flat_map(|problem| PATHS.map(|path| (problem.clone(), path))) {
        assert!(!problem.into_response_as(App::routes().errors.at(path)).headers().contains_key(header::RETRY_AFTER));
    }
}

#[test]
fn a_limit_that_says_when_to_come_back_is_passed_on() {
    let refusal = Refusal::RateLimited { retry_after: std::time::Duration::from_millis(2_500) };
    let response = Problem::from(refusal).into_response();
    assert_eq!(response.headers()[header::RETRY_AFTER], "3");
}
