"""Operations of channel-last frameworks, written with canonical operators."""
