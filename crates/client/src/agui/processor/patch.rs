//! Patches a JSON value with operations of RFC 6902.

use json_patch::{Patch, PatchOperation, patch, patch_unsafe};
use serde_json::Value;

/// How deep moves and copies may nest a value; deeper is an error, because recursion over it could overflow the stack.
/// Paths may have half as many names. JSON that is read is at most 128 deep.
const MAX_DEPTH: usize = 256;
/// How large copies may make a value: its texts, and 16 bytes for each value in it. Larger is an error, because copies
/// of copies could fill any memory.
const MAX_BYTES: usize = 16 * 1024 * 1024;

/// Applies all operations or none. The error says which one does not fit.
pub(super) fn apply(value: &mut Value, operations: &[Value]) -> Result<(), String> {
    let Patch(operations) =
        serde_json::from_value(Value::Array(operations.to_vec())).map_err(|error| error.to_string())?;
    if operations.iter().any(|operation| operation.path().count() > MAX_DEPTH / 2) {
        return Err(format!("a path has more than {} names", MAX_DEPTH / 2));
    }
    if operations.iter().any(is_move) {
        // A copy is changed, because a failed move cannot be undone; it is measured after each step that can grow it.
        let mut changed = value.clone();
        for operation in &operations {
            patch_unsafe(&mut changed, std::slice::from_ref(operation)).map_err(|error| error.to_string())?;
            if is_move(operation) {
                measure(&changed, MAX_DEPTH, &mut MAX_BYTES.clone())?;
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
    *left = left.checked_sub(size).ok_or_else(|| format!("it would be larger than {MAX_BYTES} bytes"))?;
    let Some(depth) = depth.checked_sub(1) else { return Err(format!("it would be more than {MAX_DEPTH} deep")) };
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
