"""The analytic rate model beside exact runs of random jobs of Flink's."""
