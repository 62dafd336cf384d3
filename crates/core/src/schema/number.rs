//! Compares numbers of JSON by value.

use std::cmp::Ordering;

use serde_json::Number;

/// Compares two numbers exactly, however they are written.
pub(super) fn compare(one: &Number, other: &Number) -> Ordering {
    match (one.as_i128(), other.as_i128()) {
        (Some(one), Some(other)) => one.cmp(&other),
        (Some(one), None) => compare_mixed(one, float(other)),
        (None, Some(other)) => compare_mixed(other, float(one)).reverse(),
        // JSON has neither NaN nor infinity.
        (None, None) => float(one).partial_cmp(&float(other)).unwrap_or(Ordering::Equal),
    }
}

fn compare_mixed(integer: i128, float: f64) -> Ordering {
    // The cast saturates. Numbers beyond it are beyond all integers of JSON.
    let whole = float.trunc() as i128;
    integer.cmp(&whole).then_with(|| 0.0_f64.partial_cmp(&float.fract()).unwrap_or(Ordering::Equal))
}

fn float(number: &Number) -> f64 {
    number.as_f64().unwrap_or_default()
}

/// Whether a number has no fraction: 1.0 is an integer.
pub(super) fn is_integer(number: &Number) -> bool {
    number.as_i128().is_some() || float(number).fract() == 0.0
}

/// A key that equal numbers share, and no others.
pub(super) fn key(number: &Number) -> i128 {
    let float = float(number);
    match number.as_i128() {
        Some(integer) => integer,
        None if float.fract() == 0.0 && float.abs() < 1e30 => float as i128,
        None => i128::MIN + i128::from(float.to_bits()),
    }
}

/// A number above 0 for `multipleOf`, as digits and an exponent of ten.
#[derive(Debug, Clone, Copy)]
pub(super) struct Divisor {
    digits: u64,
    exponent: i32,
}

impl Divisor {
    /// `None` if the number is not above 0.
    pub(super) fn of(number: &Number) -> Option<Self> {
        let divisor = Self::absolute(number);
        (divisor.digits > 0 && float(number) > 0.0).then_some(divisor)
    }

    fn absolute(number: &Number) -> Self {
        if let Some(integer) = number.as_i128() {
            return Self { digits: u64::try_from(integer.unsigned_abs()).unwrap_or(u64::MAX), exponent: 0 };
        }
        // The shortest decimal that means this float has 17 digits at most.
        let text = format!("{:e}", float(number).abs());
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let exponent = exponent.parse::<i32>().unwrap_or_default() - i32::try_from(fraction.len()).unwrap_or_default();
        Self { digits: format!("{whole}{fraction}").parse().unwrap_or_default(), exponent }
    }

    /// Whether a number is a multiple of this one, exactly in decimal.
    pub(super) fn divides(self, number: &Number) -> bool {
        let number = Self::absolute(number);
        let (digits, divisor) = (u128::from(number.digits), u128::from(self.digits));
        let shift = number.exponent - self.exponent;
        match u32::try_from(shift) {
            Ok(shift) => (digits % divisor * ten_to(shift, divisor)).is_multiple_of(divisor),
            // The divisor then has more zeros than the number has digits.
            Err(_) if shift < -19 => digits == 0,
            Err(_) => digits.is_multiple_of(divisor * 10u128.pow(shift.unsigned_abs())),
        }
    }
}

/// A power of ten, modulo a number of 64 bits.
fn ten_to(exponent: u32, modulus: u128) -> u128 {
    let (mut result, mut square, mut left) = (1 % modulus, 10 % modulus, exponent);
    while left > 0 {
        if left % 2 == 1 {
            result = result * square % modulus;
        }
        square = square * square % modulus;
        left /= 2;
    }
    result
}

#[cfg(test)]
mod tests;
