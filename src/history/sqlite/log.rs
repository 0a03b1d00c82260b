//! Examines SQLite's write-ahead log.
//!
//! SQLite reads a log up to the first frame that does not match its checksum, because that is where a power loss cut the
//! last transaction off. A frame that is damaged later looks the same and hides all transactions after it. They are
//! recognised by what a power loss cannot leave: a frame that commits, at or after the damage, and frames of the same
//! log after it. Format: <https://www.sqlite.org/fileformat2.html#the_write_ahead_log>.

use std::path::Path;

const HEADER: usize = 32;
const FRAME: usize = 24;
/// What a power loss leaves old or new as a whole.
const SECTOR: usize = 512;

/// Committed transactions of the log that SQLite will not read; 0 for a log that is whole or was cut off by a power loss.
pub(super) fn hidden(log: &Path) -> std::io::Result<u64> {
    match std::fs::read(log) {
        Ok(bytes) => Ok(hidden_in(&bytes)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(0),
        Err(error) => Err(error),
    }
}

fn hidden_in(bytes: &[u8]) -> u64 {
    let word =
        |at: usize| bytes.get(at..at + 4).map_or(0, |word| u32::from_be_bytes([word[0], word[1], word[2], word[3]]));
    let (magic, page) = (word(0), word(8) as usize);
    let sum = sums(bytes.get(..FRAME).unwrap_or_default(), magic & 1 == 1, (0, 0));
    let whole_header = magic & !1 == 0x377f_0682 && sum == (word(24), word(28));
    // Pages have 4,096 bytes. A header is in one sector, which a power loss leaves old or new.
    let page = if whole_header { page } else { 4096 };
    let salts = if whole_header { (word(16), word(20)) } else { (word(HEADER + 8), word(HEADER + 12)) };
    if page == 0 || salts == (0, 0) {
        return 0;
    }
    let frames: Vec<usize> =
        (HEADER..).step_by(FRAME + page).take_while(|at| at + FRAME + page <= bytes.len()).collect();
    let mut first_bad = 0;
    if whole_header {
        let mut sum = sum;
        first_bad = frames
            .iter()
            .take_while(|at| {
                let at = **at;
                sum = sums(&bytes[at..at + 8], magic & 1 == 1, sum);
                sum = sums(&bytes[at + FRAME..at + FRAME + page], magic & 1 == 1, sum);
                (word(at + 8), word(at + 12)) == salts && (word(at + 16), word(at + 20)) == sum
            })
            .count();
    }
    let own = |at: usize| (word(at + 8), word(at + 12)) == salts;
    let after: Vec<usize> = frames[first_bad..].iter().copied().filter(|at| own(*at)).collect();
    // A frame's header that lies in two sectors may be half of an older frame's.
    let commits = |at: &usize| word(at + 4) != 0 && at % SECTOR <= SECTOR - FRAME;
    let last = after.last().copied();
    let hidden = after.iter().filter(|at| commits(at) && Some(**at) != last).count() as u64;
    // The transaction that ends with the last frame is hidden as well; alone it may be one that was cut off.
    let at_the_end = u64::from(last.is_some_and(|at| commits(&at)));
    if hidden > 0 { hidden + at_the_end } else { u64::from(!whole_header) * at_the_end }
}

fn sums(bytes: &[u8], big_endian: bool, (mut a, mut b): (u32, u32)) -> (u32, u32) {
    let (words, _) = bytes.as_chunks::<4>();
    let read = |word: &[u8; 4]| if big_endian { u32::from_be_bytes(*word) } else { u32::from_le_bytes(*word) };
    let (pairs, _) = words.as_chunks::<2>();
    for [first, second] in pairs {
        a = a.wrapping_add(read(first)).wrapping_add(b);
        b = b.wrapping_add(read(second)).wrapping_add(a);
    }
    (a, b)
}
