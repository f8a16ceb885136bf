"""A sweep of HTP: small cases of every operator, host against the vendor's emulation."""
