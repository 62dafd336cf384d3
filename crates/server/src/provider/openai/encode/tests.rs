use super::*;

#[test]
fn the_bound_of_tokens_has_the_name_that_the_host_knows() {
    let cases = [
        ("api.openai.com", "max_completion_tokens"),
        ("mine.openai.azure.com", "max_completion_tokens"),
        ("notopenai.com", "max_tokens"),
        ("127.0.0.1", "max_tokens"),
    ];
    for (host, name) in cases {
        let max_tokens = MaxTokens::new(Some(5), host);
        assert_eq!(serde_json::to_value(max_tokens).unwrap(), serde_json::json!({ name: 5 }), "{host}");
        assert!(MaxTokens::new(None, host).is_none());
    }
}
