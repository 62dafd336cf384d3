use anyhow::Context;

use super::*;

#[test]
fn a_cause_is_said_once() {
    let error = Err::<(), _>(io::Error::other("the disk is full")).context("cannot write: the disk is full");
    assert_eq!(message(&error.unwrap_err()), "cannot write: the disk is full");
    let error = Err::<(), _>(io::Error::other("the disk is full")).context("cannot write");
    assert_eq!(message(&error.unwrap_err()), "cannot write: the disk is full");
}
