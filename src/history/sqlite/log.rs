//! Examines SQLite's write-ahead log.
//!
//! SQLite reads a log up to the first frame that does not match its checksum, because that is where a power loss cut the
//! last transaction off. A frame that is damaged later looks the same and hides all transactions after it. They are
//! recognised by what a power loss cannot leave: a frame that commits, at or after the damage, and frames of the same
//! log after it. Format: <https://www.sqlite.org/fileformat2.html#the_write_ahead_log>.

use std::fs::File;
use std::io::{BufReader, ErrorKind, Read};
use std::path::Path;

const HEADER: usize = 32;
const FRAME: usize = 24;
/// Bytes of a page at most.
const LARGEST_PAGE: usize = 1 << 16;
/// What a power loss leaves old or new as a whole.
const SECTOR: usize = 512;

/// Committed transactions of the log that SQLite will not read; 0 for a log that is whole or was cut off by a power loss.
pub(super) fn hidden(log: &Path) -> std::io::Result<u64> {
    match File::open(log) {
        Ok(file) => hidden_in(BufReader::with_capacity(1 << 16, file)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(0),
        Err(error) => Err(error),
    }
}

/// A log may be as large as the history, after a migration that was interrupted: it is read frame by frame.
fn hidden_in(mut log: impl Read) -> std::io::Result<u64> {
    let mut header = [0; HEADER];
    if !fill(&mut log, &mut header)? {
        return Ok(0);
    }
    let (magic, page) = (word(&header, 0), word(&header, 8) as usize);
    let big_endian = magic & 1 == 1;
    let mut sum = sums(&header[..FRAME], big_endian, (0, 0));
    let whole_header = magic & !1 == 0x377f_0682 && sum == (word(&header, 24), word(&header, 28));
    // Pages have 4,096 bytes. A header is in one sector, which a power loss leaves old or new.
    let page = if whole_header { page } else { 4096 };
    if page == 0 || page > LARGEST_PAGE {
        return Ok(0);
    }
    let mut salts = whole_header.then(|| (word(&header, 16), word(&header, 20)));
    let (mut frame, mut at) = (vec![0; FRAME + page], HEADER);
    let (mut is_readable, mut hidden, mut last) = (whole_header, 0, None);
    while fill(&mut log, &mut frame)? {
        let found = (word(&frame, 8), word(&frame, 12));
        let salts = *salts.get_or_insert(found);
        if salts == (0, 0) {
            return Ok(0);
        }
        if is_readable {
            sum = sums(&frame[FRAME..], big_endian, sums(&frame[..8], big_endian, sum));
            is_readable = found == salts && (word(&frame, 16), word(&frame, 20)) == sum;
        }
        if !is_readable && found == salts {
            // A frame's header that lies in two sectors may be half of an older frame's.
            let commits = word(&frame, 4) != 0 && at % SECTOR <= SECTOR - FRAME;
            hidden += u64::from(last.replace(commits) == Some(true));
        }
        at += FRAME + page;
    }
    // The transaction that ends with the last frame is hidden as well; alone it may be one that was cut off.
    let at_the_end = u64::from(last == Some(true));
    Ok(if hidden > 0 { hidden + at_the_end } else { u64::from(!whole_header) * at_the_end })
}

/// Whether there was as much.
fn fill(log: &mut impl Read, bytes: &mut [u8]) -> std::io::Result<bool> {
    match log.read_exact(bytes) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
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
