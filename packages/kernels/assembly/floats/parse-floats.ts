// Which 32-bit floats does a list of JSON numbers stand for?
//
// The result of each number is that of JSON.parse followed by Math.fround: rounded to a double, and that to a float. Here it is reached
// without the exact double. Up to 19 digits w and a power of ten give the approximation w * 10^e: three roundings, so it is less than 4
// steps away from the exact double. Both round to the same float unless the middle of two floats lies between them, and in a double that
// middle is where the 29 bits that a float does not have are 100...0. If the approximation is that near to a middle (one number in 2^24 at
// random), or the number is not an ordinary one (a denormal or infinite float, a very large exponent, an invalid number), the kernel gives
// up, and the caller parses the text in another way.
//
// Up to eight digits are read at a time, as in fast_float (Lemire, "Number parsing at a gigabyte per second", Software: Practice and
// Experience 51, 2021), also where fewer follow: a loop over single digits, whose number cannot be predicted, takes twice as long.

/** The bits of a double that a float does not have, and the middle of two floats in them. */
const LOST_BITS: u64 = 0x1fff_ffff;
const MIDDLE: i64 = 0x1000_0000;
/** Steps of a double that an approximation must be away from a middle. */
const NEAR: i64 = 8;

/** Normal floats, with some distance from both ends. */
const LEAST: f64 = 1.2e-38;
const MOST: f64 = 3.4e38;

/** Digits that fit into a u64. */
const DIGITS_MOST: i32 = 19;
/** Larger exponents are given up. */
const EXPONENT_MOST: i32 = 9_999;

/** Bytes from `at` on that are digits, at most eight. */
function digitsAt(bytes: u64): i32 {
  const values = bytes ^ 0x3030_3030_3030_3030;
  const others =
    (((values & 0x7f7f_7f7f_7f7f_7f7f) + 0x7676_7676_7676_7676) | values) & 0x8080_8080_8080_8080;
  return i32(ctz(others)) >> 3;
}

/** The number that the first `count` of eight bytes stand for, which are digits, 0 to 8 of them: pairs, then fours, then all. */
function numberOf(bytes: u64, count: i32): u64 {
  // In two steps, because a shift by 64 shifts nothing.
  const ones = ((bytes & 0x0f0f_0f0f_0f0f_0f0f) << (32 - (count << 2))) << (32 - (count << 2));
  const pairs = ones * 10 + (ones >> 8);
  const low = (pairs & 0x0000_00ff_0000_00ff) * 0x000f_4240_0000_0064;
  const high = ((pairs >> 16) & 0x0000_00ff_0000_00ff) * 0x0000_2710_0000_0001;
  return (low + high) >> 32;
}

function isBlank(byte: u32): bool {
  return byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09;
}

/**
 * Reads the numbers between the brackets of a JSON array, which are the bytes from `at` to `end`, and writes them to `out` as f32. The byte
 * at `end` is not a digit, and eight bytes can be read from there.
 * @param powers the f64 10^-`powersMost` to 10^`powersMost`, of which `powersMost` is at least 8
 * @param most numbers for which `out` has room
 * @returns how many they are; -1 where the caller must parse the text in another way: it may be invalid, or a hard case
 */
export function parseFloats(
  at: usize,
  end: usize,
  powers: usize,
  powersMost: i32,
  out: usize,
  most: i32,
): i32 {
  const first = out;
  const outEnd = out + ((<usize>most) << 2);
  const powerOfZero = powers + ((<usize>powersMost) << 3);
  while (true) {
    while (at < end && isBlank(load<u8>(at))) at++;
    const sign = <u64>(load<u8>(at) === 0x2d);
    at += <usize>sign;
    // The digits before the point: 0 alone, or any others.
    let w: u64 = 0;
    let exponent: i32 = 0;
    let digits: i32 = 0;
    let leading = <u32>load<u8>(at) - 0x30;
    if (leading > 9) return -1;
    at++;
    if (leading !== 0) {
      w = leading;
      digits = 1;
      while (true) {
        leading = <u32>load<u8>(at) - 0x30;
        if (leading > 9) break;
        if (digits < DIGITS_MOST) {
          w = w * 10 + leading;
          digits++;
        } else exponent++;
        at++;
      }
    }
    if (load<u8>(at) === 0x2e) {
      at++;
      const fraction = at;
      // Leading zeros are no digits of w.
      if (w === 0)
        while (load<u8>(at) === 0x30) {
          exponent--;
          at++;
        }
      while (true) {
        const bytes = load<u64>(at);
        const count = digitsAt(bytes);
        at += count;
        // Digits that do not fit are less than the distance that an approximation must have.
        const taken = min(count, DIGITS_MOST - digits);
        w = w * <u64>load<f64>(powerOfZero + ((<usize>taken) << 3)) + numberOf(bytes, taken);
        digits += taken;
        exponent -= taken;
        if (count < 8) break;
      }
      if (at === fraction) return -1;
    }
    if ((load<u8>(at) | 0x20) === 0x65) {
      at++;
      const exponentSign = load<u8>(at);
      if (exponentSign === 0x2d || exponentSign === 0x2b) at++;
      const from = at;
      let value: i32 = 0;
      while (true) {
        const digit = <u32>load<u8>(at) - 0x30;
        if (digit > 9) break;
        value = value * 10 + <i32>digit;
        if (value > EXPONENT_MOST) return -1;
        at++;
      }
      if (at === from) return -1;
      exponent += exponentSign === 0x2d ? -value : value;
    }
    let number: f64 = 0;
    if (w !== 0) {
      if (exponent < -powersMost || exponent > powersMost) return -1;
      number = <f64>w * load<f64>(powerOfZero + <usize>(exponent << 3));
      if (!(number >= LEAST && number <= MOST)) return -1;
      const distance = <i64>(reinterpret<u64>(number) & LOST_BITS) - MIDDLE;
      if (distance <= NEAR && distance >= -NEAR) return -1;
    }
    if (out === outEnd) return -1;
    store<f32>(out, <f32>reinterpret<f64>(reinterpret<u64>(number) | (sign << 63)));
    out += 4;
    while (at < end && isBlank(load<u8>(at))) at++;
    if (at >= end) return at === end ? <i32>((out - first) >> 2) : -1;
    if (load<u8>(at) !== 0x2c) break;
    at++;
  }
  return -1;
}
