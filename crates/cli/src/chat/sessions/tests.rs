use super::*;

#[test]
fn a_model_is_named_as_it_is_given() {
    let name = "openrouter/meta/llama-4";
    assert_eq!(model_name(&parse_model(name).unwrap()), name);
}
