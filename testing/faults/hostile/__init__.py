"""Objects that a tenant may send to harm the operator or other tenants."""
