//! What holds for the repository as a whole: its structure, and files that others read from it.

mod prometheus_rules;
mod structure;
mod tensor_table;
