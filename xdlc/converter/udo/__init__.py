"""Operations that users define, as ops of a model: what is not special to one source framework."""
