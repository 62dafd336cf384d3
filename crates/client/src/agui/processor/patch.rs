//! Changes of a JSON value, by the operations of RFC 6902.

use json_patch::{Patch, PatchOperation, patch, patch_unsafe};
use serde_json::Value;

/// How many names a path may have, and how deep a value may become by moving and copying; more is an error. What is
/// read from JSON is at most 128 deep, so that all of it can be walked without running out of stack.
const DEEPEST: usize = 256;
/// How large a value may become by copying, in bytes of its texts and 16 for anything else; more is an error. Copies of
/// copies would fill any memory.
const LARGEST: usize = 16 * 1024 * 1024;

/// Makes all of the changes, or none.
///
/// # Errors
/// What does not fit.
pub(super) fn apply(value: &mut Value, operations: &[Value]) -> Result<(), String> {
    let Patch(operations) =
        serde_json::from_value(Value::Array(operations.to_vec())).map_err(|error| error.to_string())?;
    if operations.iter().any(|operation| operation.path().count() > DEEPEST / 2) {
        return Err(format!("a path has more than {} names", DEEPEST / 2));
    }
    if operations.iter().any(is_move) {
        // On a copy: a move that fails in its middle cannot be undone, and what grows is measured step by step.
        let mut changed = value.clone();
        for operation in &operations {
            patch_unsafe(&mut changed, std::slice::from_ref(operation)).map_err(|error| error.to_string())?;
            if is_move(operation) {
                measure(&changed, DEEPEST, &mut LARGEST.clone())?;
            }
        }
        *value = changed;
        return Ok(());
    }
    patch(value, &operations).map_err(|error| error.to_string())
}

fn is_move(operation: &PatchOperation) -> bool {
    matches!(operation, PatchOperation::Move(_) | PatchOperation::Copy(_))
}

fn measure(value: &Value, depth: usize, left: &mut usize) -> Result<(), String> {
    let size = if let Value::String(text) = value { 16 + text.len() } else { 16 };
    *left = left.checked_sub(size).ok_or_else(|| format!("it would be larger than {LARGEST} bytes"))?;
    let Some(depth) = depth.checked_sub(1) else { return Err(format!("it would be more than {DEEPEST} deep")) };
    match value {
        Value::Array(values) => values.iter().try_for_each(|value| measure(value, depth, left)),
        Value::Object(values) => values.iter().try_for_each(|(name, value)| {
            *left = left.saturating_sub(name.len());
            measure(value, depth, left)
        }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
