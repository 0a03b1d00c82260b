//! The representation of each learnt concept: its activations, or its embedding.

use std::ops::Range;

use crate::prepare::Prepared;
use crate::sample::Column;
use crate::tensor::TensorName;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Representation {
    Activations,
    Embeddings,
}

impl Representation {
    /// Activations, or embeddings where there are none.
    pub fn first(p: &Prepared) -> Self {
        match p.column(TensorName::ConceptActivations) {
            Some(_) => Self::Activations,
            None => Self::Embeddings,
        }
    }

    /// The name under which the scores of a sample share the purity matrices.
    pub fn matrices(self) -> &'static str {
        match self {
            Self::Activations => "purity matrices",
            Self::Embeddings => "purity matrices of embeddings",
        }
    }

    /// Activations that belong to no concept.
    pub fn latents<'p>(self, p: &'p Prepared) -> Option<&'p Column> {
        p.latents().filter(|_| self == Self::Activations)
    }

    /// The column that represents concept `i`, and which of its values.
    pub fn columns<'p>(self, p: &'p Prepared, i: usize) -> Result<(&'p Column, Range<usize>), String> {
        match self {
            Self::Activations => {
                let column = p.column(TensorName::ConceptActivations).ok_or("there are no concept activations")?;
                let blocks = p.run().activation_blocks(column.width()).ok_or("the activations fit no layout")?;
                Ok((column, blocks[i].clone()))
            }
            Self::Embeddings => {
                let column = p.column(TensorName::ConceptEmbeddings);
                let column = column.ok_or("there are no concept activations or embeddings")?;
                let width = column.dims()[1];
                Ok((column, i * width..(i + 1) * width))
            }
        }
    }
}
