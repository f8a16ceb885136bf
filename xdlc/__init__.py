"""Open toolchain for DLC model containers."""
