"""The version that every manifest names."""

VERSION = "0.1.0"
