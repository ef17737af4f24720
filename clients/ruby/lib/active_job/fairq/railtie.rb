# frozen_string_literal: true

module ActiveJob
  module Fairq
    # config.fairq.NAME is ActiveJob::Fairq.NAME.
    class Railtie < Rails::Railtie
      config.fairq = ActiveSupport::OrderedOptions.new

      initializer "fairq.settings" do |app|
        unknown = app.config.fairq.keys - SETTINGS
        unless unknown.empty?
          raise ConfigurationError, "config.fairq has #{unknown.join(', ')}, which is no setting; there are #{SETTINGS.join(', ')}"
        end

        app.config.fairq.each { |name, value| Fairq.public_send("#{name}=", value) }
      end
    end
  end
end
