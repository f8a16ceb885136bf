"""A sweep of HTP: small cases of every operator, host against emulation."""
