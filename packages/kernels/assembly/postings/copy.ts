// How do the postings of a list get into a merged segment?
//
// Where no record of the old segment was removed, all its records move by the same distance, so eight of them are moved at once.

/**
 * Copies records and exact impacts, which do not overlap their new places.
 * @param records, exact where both columns begin; exactBytes of one exact impact
 * @param added to the number of each record
 * @param to, exactTo where they go
 */
export function copyPostings(
  records: usize,
  exact: usize,
  count: u32,
  exactBytes: u32,
  added: u32,
  to: usize,
  exactTo: usize,
): void {
  const end = records + ((<usize>count) << 1);
  const eight = i16x8.splat(<i16>added);
  for (; records + 16 <= end; records += 16, to += 16) v128.store(to, i16x8.add(v128.load(records), eight));
  for (; records < end; records += 2, to += 2) store<u16>(to, load<u16>(records) + <u16>added);
  const exactEnd = exact + <usize>(count * exactBytes);
  // A call of memory.copy would take longer than most lists.
  for (; exact + 16 <= exactEnd; exact += 16, exactTo += 16) v128.store(exactTo, v128.load(exact));
  for (; exact + 4 <= exactEnd; exact += 4, exactTo += 4) store<u32>(exactTo, load<u32>(exact));
  for (; exact < exactEnd; exact++, exactTo++) store<u8>(exactTo, load<u8>(exact));
}
