//! The messages and service of `proto/conceptwatch/v1`, generated at build time.
#![allow(missing_docs, clippy::all, clippy::pedantic)]

tonic::include_proto!("conceptwatch.v1");
