use super::*;

#[test]
fn a_model_is_a_provider_and_a_name_that_may_have_slashes() {
    let model = parse_model("openrouter/meta/llama-4").unwrap();
    assert_eq!((model.provider_id.as_str(), model.model_id.as_deref()), ("openrouter", Some("meta/llama-4")));
    for bad in ["", "scripted", "/scripted", "demo/"] {
        assert!(parse_model(bad).is_err(), "{bad}");
    }
}
