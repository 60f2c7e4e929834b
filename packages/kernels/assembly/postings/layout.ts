// What is the memory layout of a search of postings?
//
// A *segment* is up to 65,536 records and their postings, which never change: record numbers are 16 bits. A *list* is the
// postings of one term (or dimension) in a segment, by ascending record, in columns side by side:
//
//   records u16 | quantized impacts u8 | exact: tf u8 or u32, or weight f32 | windows of a long list
//
// Its *entry* in the segment's directory has all that a search needs before it reads the list, in half a cache line. A search finds
// each list of each segment cold, and each further place that it reads costs as much as adding up a hundred postings.
//
//   entry:     place of the list u32 | postings u32 | base f32 | slope f32 | most f32 | top-k impact bounds of a long list u8 x 12
//
// A *quantized impact* q bounds what a posting adds to a score: the query's weight times base + slope * q is at least that much. most
// is the greatest impact of the list. The score itself comes from the exact column.
//
// The top-k impact bounds are the quantized impacts of the 16th, 32nd, 64th ... greatest posting. They give a search its first
// floor.
//
// A segment has *windows* of 4,096 records: look-ups go by them, and searches where there is no memory for the sums of all records. A long
// list says where each window begins and the greatest quantized impact
// in it, and the greatest quantized impact in each *block* of 512 records, 0 where it has no posting there:
//
//   windows:   begins u32 x 17 | greatest quantized impact u8 x 16 | greatest quantized impact of a block u8 x 128
//
// Behind the windows a long list of sparse vectors repeats its *high-impact prefix*: the eighth of its postings with the greatest
// quantized impacts, in descending order. An approximate search reads these and no others.
//
//   high-impact prefix:   records u16 | quantized impacts u8
//
// The whole segment is one piece of memory, which can be written to disk as it is (drawn in engine/index/inverted/segment.ts).
//
// A search has scratch memory, laid out by the program (engine/index/inverted/arena.ts): the fields below, and behind their pointers
//
//   query      records of Q_BYTES for each term that has a list in the segment, in the order of the query: the list's entry and the
//              weight. The kernel makes the rest of it (enter.ts), and
//   sorted     u32, places in the query by ascending bound
//   terms      records of TERM_BYTES, by ascending bound, the greatest impact that the term adds in this segment
//   order      u32, places of the terms in the order in which exact scores are added
//   hidden     u64, a bit for each record that is not to be found: removed, not seen, or not allowed; up to the end of the last window
//   heap       f64, the k best scores so far: the least on top
//   sums       f32 x 4,096, zero between calls: what the window's records have so far
//   marks      u64 x 64, zero between calls: which they are
//   found      16 bytes each: score f64, record u32, and 4 unused
//   recordSums, touched: where impacts are added up by record of the segment instead of by window: f32 (gather.ts) or u16 (units.ts) of each,
//              or f64 of 16,384 (sums.ts), zero between searches; and u16 x 65,537 or u32 x 65,536, the records that have any; as large as
//              the largest segment needs that was searched so

export const WINDOW_BITS: u32 = 12;
export const WINDOW: u32 = 1 << WINDOW_BITS;

export const BLOCK_BITS: usize = 9;

/** Byte offsets in the windows of a list. */
export const W_IMPACTS: usize = 68;
export const W_BLOCK_IMPACTS: usize = 84;

/** Offset of the high-impact prefix; one in this many postings is a high-impact posting (a power of two). */
export const W_HIGH_IMPACT: usize = 212;
export const HIGH_IMPACT_BITS: u32 = 3;

/** Byte offsets of a list's entry. The place counts from the segment's beginning. */
export const E_PLACE: usize = 0;
export const E_COUNT: usize = 4;
export const E_BASE: usize = 8;
export const E_SLOPE: usize = 12;
export const E_MOST: usize = 16;
export const E_TOP_IMPACTS: usize = 20;

/** The first top-k impact bound is that of the 2 ** TOP_IMPACT_BITS-th greatest posting; the number of bounds. */
export const TOP_IMPACT_BITS: u32 = 4;
export const TOP_IMPACTS: u32 = 12;

/** A list with this many postings has windows. */
export const LONG: u32 = 512;

/** Fields of a term of the query; the kernel computes those after the weight (f64): unscaled base, slope and bound. */
export const Q_BYTES: usize = 40;
export const Q_ENTRY: usize = 0;
export const Q_WEIGHT: usize = 8;
export const Q_BASE: usize = 16;
export const Q_SLOPE: usize = 24;
export const Q_MOST: usize = 32;

export const TERM_BYTES: usize = 64;
export const T_RECORDS: usize = 0;
export const T_QUANTIZED: usize = 4;
export const T_EXACT: usize = 8;
export const T_COUNT: usize = 12;
/** 0 if there are none. */
export const T_WINDOWS: usize = 16;
export const T_BASE: usize = 20;
export const T_SLOPE: usize = 24;
/** f32: the greatest of base + slope * quantized impact in the segment. */
export const T_BOUND: usize = 28;
/** What exact impacts are multiplied with. */
export const T_WEIGHT: usize = 32;
/** Where the list continues; 0 at first. */
export const T_CURSOR: usize = 40;
/** Where the window's postings end. */
export const T_END: usize = 44;
/** f32: the greatest of base + slope * quantized impact in the window, at least 0. */
export const T_MOST: usize = 48;
/** ... in the block. */
export const T_BLOCK_MOST: usize = 52;
/** The smallest quantized impact that reaches the limit; more than 255 if none does. */
export const T_LEAST: usize = 56;
/** Of sums in units, in the place of what concerns windows: what a quantized impact is multiplied with, what is added, and the most. */
export const T_FACTOR: usize = 48;
export const T_OFFSET: usize = 52;
export const T_MOST_UNITS: usize = 60;

export const S_TERMS: usize = 0;
export const S_TERM_COUNT: usize = 4;
export const S_ORDER: usize = 8;
export const S_HIDDEN: usize = 12;
/** u32 of each record: its length in terms. Only of texts. */
export const S_LENGTHS: usize = 16;
export const S_KIND: usize = 20;
export const S_K: usize = 24;
export const S_HEAP: usize = 28;
export const S_HEAP_COUNT: usize = 32;
export const S_SUMS: usize = 36;
export const S_MARKS: usize = 40;
export const S_FOUND: usize = 44;
export const S_FOUND_COUNT: usize = 48;
/** The next window; 0 at first. */
export const S_WINDOW: usize = 52;
/** In its place: how many candidates are scored before the others. */
export const S_PROBED: usize = 52;
export const S_RECORD_COUNT: usize = 56;
/** f32, scaled: only impacts that are as great count where candidates are gathered; minus infinity: all. */
export const S_LIMIT: usize = 60;
/** Whether an impact can be negative. */
export const S_SINKS: usize = 104;
/** Of the query: its terms that have a list. */
export const S_QUERY: usize = 108;
export const S_QUERY_COUNT: usize = 112;
/** The greatest quantized impact. */
export const S_LEVELS: usize = 116;
/** Number of records that are removed or excluded: they may include a list's greatest postings. */
export const S_MISSING: usize = 120;
/** Whether the terms are prepared. */
export const S_IS_ENTERED: usize = 124;
/**
 * f64: the factor by which impacts can have grown since the quantized impacts were computed, at least 1; and that by which they can have
 * shrunk, at most 1.
 */
export const S_GROWTH: usize = 128;
export const S_SHRINKAGE: usize = 136;
/** f64: minimum contribution of a single posting while candidates are gathered; unscaled. */
export const S_LEAST: usize = 144;
export const S_SORTED: usize = 152;
export const S_RECORD_SUMS: usize = 156;
export const S_TOUCHED: usize = 160;
export const S_TOUCHED_COUNT: usize = 164;
/** In their place: u32 each, a sum of units and, in the lower 16 bits, its record. */
export const S_CANDIDATES: usize = 160;
export const S_CANDIDATE_COUNT: usize = 164;
/** Where the segment begins. */
export const S_SEGMENT: usize = 168;
/** Whether there is room for the sums of all records of the segment. */
export const S_HAS_SUMS: usize = 172;
/** How the segment is searched (search.ts), and how far that is. */
export const S_WAY: usize = 176;
export const S_STAGE: usize = 180;
/** f64: the units of a contribution of 1. */
export const S_UNITS: usize = 184;
/** How many records were listed. */
export const S_LISTED: usize = 192;
/** The first of the terms that were added up, and the most units that those before it add together. */
export const S_ESSENTIAL: usize = 196;
export const S_REST: usize = 200;

/** Records whose exact scores are computed together, at most. */
export const SCORED_MAX: u32 = 16;

/** f64: scores below cannot be among the k best. */
export const S_FLOOR: usize = 64;
/** f64: by how much less than it ought to be a sum can be. */
export const S_SLACK: usize = 72;
/** f64, of texts: k1 (1 - b), and k1 b / average length. */
export const S_FIXED: usize = 80;
export const S_PER_TERM: usize = 88;
/** f64: the factor that makes a score comparable with a sum; the terms' base, slope and bound are scaled, too. */
export const S_SCALE: usize = 96;

/** Sparse vectors: an impact is the weight, f32. */
export const SPARSE: u32 = 0;
/** Texts: an impact is tf / (tf + fixed + perTerm * length), tf in one byte. */
export const TEXT: u32 = 1;
/** For texts of a segment with a tf that does not fit into a byte: all are u32. */
export const TEXT_WIDE: u32 = 2;
