//! The coding of messages, which the generated code names.

use std::marker::PhantomData;

use prost::Message;
use tonic::Status;
use tonic::codec::{BufferSettings, DecodeBuf};
use tonic_prost::{ProstCodec, ProstEncoder};

use super::status::refused;
use leakage::field_error::FieldError;

/// The codec of prost, which for bytes that it cannot decode blames the message, and not this program.
pub struct Codec<T, U>(PhantomData<(T, U)>);

/// A decoder of `U`.
pub struct Decoder<U>(PhantomData<U>);

impl<T, U> Default for Codec<T, U> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<T, U> tonic::codec::Codec for Codec<T, U>
where
    T: Message + Send + 'static,
    U: Message + Default + Send + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = ProstEncoder<T>;
    type Decoder = Decoder<U>;

    fn encoder(&mut self) -> Self::Encoder {
        ProstCodec::<T, U>::raw_encoder(BufferSettings::default())
    }

    fn decoder(&mut self) -> Self::Decoder {
        Decoder(PhantomData)
    }
}

impl<U: Message + Default> tonic::codec::Decoder for Decoder<U> {
    type Item = U;
    type Error = Status;

    fn decode(&mut self, bytes: &mut DecodeBuf<'_>) -> Result<Option<U>, Status> {
        // The error names the message and its field.
        let malformed = |error| refused(FieldError::new("message", format!("got bytes that cannot be read: {error}")));
        U::decode(bytes).map(Some).map_err(malformed)
    }
}
