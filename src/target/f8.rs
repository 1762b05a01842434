//! The chip's FP8: one sign, four exponent, three mantissa bits, bias 8 (`target/ipu21.md` §12.1).

/// The only NaN.
pub const NAN: u8 = 0x80;

/// Value of a code.
pub fn to_f32(code: u8) -> f32 {
    if code == NAN {
        return f32::NAN;
    }
    let (exponent, mantissa) = (i32::from(code >> 3 & 0xf), f32::from(code & 7));
    let magnitude = if exponent == 0 {
        mantissa * (-10_f32).exp2()
    } else {
        (1.0 + mantissa / 8.0) * ((exponent - 8) as f32).exp2()
    };
    if code & 0x80 == 0 { magnitude } else { -magnitude }
}

/// Nearest code, ties to even; overflow saturates, a negative value that rounds to zero gives zero,
/// NaN gives [`NAN`].
pub fn from_f32(value: f32) -> u8 {
    if value.is_nan() {
        return NAN;
    }
    let sign = if value.is_sign_negative() { 0x80 } else { 0 };
    let magnitude = value.abs();
    if magnitude >= 240.0 {
        return sign | 0x7f;
    }
    // Below the smallest normal number, steps have the size of the subnormals.
    let exponent = (((magnitude.to_bits() >> 23) as i32) - 127).max(-7);
    let step = ((exponent - 3) as f32).exp2();
    let steps = (magnitude / step).round_ties_even() as i32;
    // 8..=16 steps of a normal number: mantissa overflow carries into the exponent by itself.
    let code = if exponent == -7 { steps } else { ((exponent + 7) << 3) + steps };
    if code == 0 { 0 } else { sign | code.min(0x7f) as u8 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_survives_and_rounding_is_to_the_nearest() {
        let mut values: Vec<f32> = (0..=255).filter(|c| *c != NAN).map(to_f32).collect();
        for code in (0..=255).filter(|code| *code != NAN) {
            assert_eq!(from_f32(to_f32(code)), code);
        }
        values.sort_by(f32::total_cmp);
        for pair in values.windows(2) {
            for part in [0.1_f32, 0.4, 0.6, 0.9] {
                let between = pair[0] + (pair[1] - pair[0]) * part;
                let nearest = if part < 0.5 { pair[0] } else { pair[1] };
                assert!((to_f32(from_f32(between)) - nearest).abs() < f32::EPSILON, "{between}");
            }
        }
    }

    #[test]
    fn special_values_are_those_of_the_host_encoder() {
        assert_eq!(from_f32(1000.0), 0x7f);
        assert_eq!(from_f32(-1000.0), 0xff);
        assert_eq!(from_f32(f32::INFINITY), 0x7f);
        assert_eq!(from_f32(-3.0 / 2048.0), 0x82);
        assert_eq!(from_f32(-1e-9), 0);
        assert_eq!(from_f32(f32::NAN), NAN);
    }
}
