//! The repository as a whole: its structure, and files of it that other programs read.

mod prometheus_rules;
mod protocol;
mod structure;
mod tensor_table;
