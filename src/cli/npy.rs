//! The header of a NumPy array file: magic, version, length, and a Python dictionary with the element type (`descr`),
//! `fortran_order` and `shape`.
//!
//! Source: <https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html>, versions 1.0 to 3.0.

use std::io::Read;

const MAGIC: &[u8] = b"\x93NUMPY";
/// Longer than the header of any array.
const MAX_BYTES: usize = 1 << 20;
/// NumPy nests tuples and lists less than this.
const MAX_DEPTH: usize = 16;

/// What the header says of the array behind it.
#[derive(Debug, PartialEq)]
pub struct Header {
    pub element: Element,
    /// Column-major order.
    pub fortran_order: bool,
    pub shape: Vec<u64>,
}

#[derive(Debug, PartialEq)]
pub enum Element {
    /// A type string such as `<f4`: byte order, kind, size. Strings count their size in characters.
    Plain { text: String, big_endian: bool, kind: char, size: u64 },
    /// Fields with a type each.
    Record,
}

impl Header {
    /// Reads a header and nothing behind it; why it is not one.
    pub fn read(reader: &mut impl Read) -> Result<Self, String> {
        let mut start = [0; 8];
        reader.read_exact(&mut start).map_err(|error| error.to_string())?;
        let Some([major, minor]) = start.strip_prefix(MAGIC) else {
            return Err("it does not begin with \\x93NUMPY".into());
        };
        let mut length = [0; 4];
        let length_bytes = match (major, minor) {
            (1, 0) => 2,
            (2 | 3, 0) => 4,
            _ => return Err(format!("got version {major}.{minor}, expected 1.0 to 3.0")),
        };
        reader.read_exact(&mut length[..length_bytes]).map_err(|error| error.to_string())?;
        let length = u32::from_le_bytes(length) as usize;
        if length > MAX_BYTES {
            return Err(format!("got {length} bytes, expected at most {MAX_BYTES}"));
        }
        let mut text = vec![0; length];
        reader.read_exact(&mut text).map_err(|error| error.to_string())?;
        Self::parse(std::str::from_utf8(&text).map_err(|error| error.to_string())?)
    }

    fn parse(text: &str) -> Result<Self, String> {
        let mut literal = Literal { rest: text.trim() };
        let entries = literal.dictionary()?;
        if !literal.rest.is_empty() {
            return Err("it goes on after its dictionary".into());
        }
        let entry = |key: &str| {
            let found = entries.iter().find(|(name, _)| name == key);
            found.map(|(_, value)| value).ok_or_else(|| format!("it has no '{key}'"))
        };
        let element = match entry("descr")? {
            Value::Text(text) => Element::parse(text).ok_or_else(|| format!("got '{text}' for 'descr'"))?,
            Value::Sequence(_) => Element::Record,
            _ => return Err("'descr' is not a type".into()),
        };
        let Value::Truth(fortran_order) = *entry("fortran_order")? else {
            return Err("'fortran_order' is not True or False".into());
        };
        let Value::Sequence(dims) = entry("shape")? else { return Err("'shape' is not a tuple".into()) };
        let dims = dims.iter().map(|dim| if let Value::Number(dim) = dim { Some(*dim) } else { None });
        let shape = dims.collect::<Option<_>>().ok_or("'shape' is not a tuple of numbers")?;
        Ok(Self { element, fortran_order, shape })
    }
}

impl Element {
    fn parse(text: &str) -> Option<Self> {
        let mut chars = text.chars();
        let (order, kind) = (chars.next().filter(|order| "<>|=".contains(*order))?, chars.next()?);
        // Dates have a unit behind their size.
        let size = chars.as_str().split('[').next().unwrap_or_default();
        let size = if size.is_empty() { 0 } else { size.parse().ok()? };
        Some(Self::Plain { text: text.to_owned(), big_endian: order == '>', kind, size })
    }
}

enum Value {
    Text(String),
    Number(u64),
    Truth(bool),
    Sequence(Vec<Self>),
}

/// A Python literal, read from the left.
struct Literal<'t> {
    rest: &'t str,
}

impl Literal<'_> {
    fn dictionary(&mut self) -> Result<Vec<(String, Value)>, String> {
        self.expect('{')?;
        let mut entries = Vec::new();
        while !self.take('}') {
            let Value::Text(key) = self.value(0)? else { return Err("a key is not a string".into()) };
            self.expect(':')?;
            entries.push((key, self.value(0)?));
            if !self.take(',') {
                self.expect('}')?;
                break;
            }
        }
        Ok(entries)
    }

    fn value(&mut self, depth: usize) -> Result<Value, String> {
        self.rest = self.rest.trim_start();
        match self.rest.chars().next() {
            Some(quote @ ('\'' | '"')) => self.text(quote),
            Some('(') => self.sequence('(', ')', depth),
            Some('[') => self.sequence('[', ']', depth),
            Some('0'..='9') => {
                let digits = self.word(|c| c.is_ascii_digit());
                digits.parse().map(Value::Number).map_err(|error| format!("{digits}: {error}"))
            }
            _ => match self.word(char::is_alphabetic) {
                "True" => Ok(Value::Truth(true)),
                "False" => Ok(Value::Truth(false)),
                _ => Err("it is not a Python literal".into()),
            },
        }
    }

    /// A string; escapes, which names of fields alone can have, stay as they are written.
    fn text(&mut self, quote: char) -> Result<Value, String> {
        let mut escaped = false;
        for (at, c) in self.rest.char_indices().skip(1) {
            if c == quote && !escaped {
                let text = self.rest[1..at].to_owned();
                self.rest = &self.rest[at + 1..];
                return Ok(Value::Text(text));
            }
            escaped = c == '\\' && !escaped;
        }
        Err("a string does not end".into())
    }

    fn sequence(&mut self, open: char, close: char, depth: usize) -> Result<Value, String> {
        if depth == MAX_DEPTH {
            return Err(format!("it nests more than {MAX_DEPTH} deep"));
        }
        self.expect(open)?;
        let mut values = Vec::new();
        while !self.take(close) {
            values.push(self.value(depth + 1)?);
            if !self.take(',') {
                self.expect(close)?;
                break;
            }
        }
        Ok(Value::Sequence(values))
    }

    fn word(&mut self, belongs: impl Fn(char) -> bool) -> &str {
        let end = self.rest.find(|c| !belongs(c)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word
    }

    /// Whether `c` comes next; then it is passed.
    fn take(&mut self, c: char) -> bool {
        let rest = self.rest.trim_start();
        let found = rest.strip_prefix(c);
        self.rest = found.unwrap_or(rest);
        found.is_some()
    }

    fn expect(&mut self, c: char) -> Result<(), String> {
        if self.take(c) { Ok(()) } else { Err(format!("expected '{c}'")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(version: u8, text: &str) -> Result<Header, String> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend([version, 0]);
        let length = (text.len() as u32).to_le_bytes();
        bytes.extend(&length[..if version == 1 { 2 } else { 4 }]);
        bytes.extend(text.bytes());
        Header::read(&mut bytes.as_slice())
    }

    fn plain(text: &str, kind: char, size: u64) -> Element {
        Element::Plain { text: text.into(), big_endian: text.starts_with('>'), kind, size }
    }

    #[test]
    fn headers_as_numpy_writes_them_are_read() {
        // By numpy.save, 2.3; the second is of a scalar, the last of dates.
        for (version, text, element, fortran_order, shape) in [
            (
                1,
                "{'descr': '<f4', 'fortran_order': False, 'shape': (32, 2), }   \n",
                plain("<f4", 'f', 4),
                false,
                vec![32, 2],
            ),
            (1, "{'descr': '|b1', 'fortran_order': False, 'shape': (), }\n", plain("|b1", 'b', 1), false, vec![]),
            (2, "{'descr': '>i8', 'fortran_order': True, 'shape': (3,), }\n", plain(">i8", 'i', 8), true, vec![3]),
            (
                3,
                "{'descr': '<U7', 'fortran_order': False, 'shape': (0, 4), }\n",
                plain("<U7", 'U', 7),
                false,
                vec![0, 4],
            ),
            (1, "{'descr': '|O', 'fortran_order': False, 'shape': (1,), }\n", plain("|O", 'O', 0), false, vec![1]),
            (
                1,
                "{'descr': '<M8[s]', 'fortran_order': False, 'shape': (1,), }\n",
                plain("<M8[s]", 'M', 8),
                false,
                vec![1],
            ),
        ] {
            assert_eq!(read(version, text), Ok(Header { element, fortran_order, shape }), "{text}");
        }
        let record = "{'descr': [('a\\'b', '<f4'), ('c', '<i4', (2, 3))], 'fortran_order': False, 'shape': (1,)}";
        assert_eq!(read(1, record).unwrap().element, Element::Record);
    }

    #[test]
    fn what_is_not_a_header_is_refused() {
        for (text, why) in [
            ("", "expected '{'"),
            ("[1, 2]", "expected '{'"),
            ("{'descr': '<f4', 'fortran_order': False}", "no 'shape'"),
            ("{'descr': '<f4', 'fortran_order': 0, 'shape': (1,)}", "True or False"),
            ("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", "not a Python literal"),
            ("{'descr': '<f4', 'fortran_order': False, 'shape': (True,)}", "tuple of numbers"),
            ("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}", "too large"),
            ("{'descr': 'f', 'fortran_order': False, 'shape': (1,)}", "got 'f'"),
            ("{'descr': '<f4, 'fortran_order': False, 'shape': (1,)}", "expected"),
            ("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} x", "goes on"),
            ("{'descr': 'abc", "does not end"),
        ] {
            let refused = read(1, text).unwrap_err();
            assert!(refused.contains(why), "{text}: {refused}");
        }
        let nested = format!("{{'descr': {}", "(".repeat(60_000));
        assert!(read(1, &nested).unwrap_err().contains("deep"));
    }
}
